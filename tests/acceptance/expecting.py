"""Open expectations of a running server, send mail to them, and consume what comes."""

import smtplib
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Any

import httpx

from tests.acceptance.harness import HTTP, Server

SETTINGS = """
[inboxes]
domains = ["in.test"]
[expectations]
link_hosts = ["shop.example/verify"]
resend_wait_s = 0
"""


class Agent:
    """Calls the API with a key of its own."""

    def __init__(self, server: Server, key: str) -> None:
        self.server = server
        self.key = key

    def call(self, method: str, path: str, body: Any = None, **given: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", **given.pop("headers", {})}
        url = f"{self.server.url}{path}"
        return HTTP.request(method, url, json=body, headers=headers, timeout=60, **given)

    def open(self, **body: Any) -> dict[str, Any]:
        return _ok(self.call("POST", "/v1/expectations", {"kind": "code", **body}), 201)

    def show(self, id_: str, wait: float = 0) -> dict[str, Any]:
        return _ok(self.call("GET", f"/v1/expectations/{id_}?wait={wait}"))

    def consume(self, id_: str, key: str) -> httpx.Response:
        return self.call("POST", f"/v1/expectations/{id_}/consume", {"consume_key": key})

    def confirm(self, id_: str, key: str, *, accepted: bool) -> httpx.Response:
        body = {"consume_key": key, "accepted": accepted}
        return self.call("POST", f"/v1/expectations/{id_}/confirm", body)


def _ok(answer: httpx.Response, code: int = 200) -> dict[str, Any]:
    assert answer.status_code == code, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def agent_of(server: Server, scope: str = "agent") -> Agent:
    made = server.api("/v1/keys", method="POST", json={"name": scope, "scope": scope})
    assert made.status_code == 201, made.text
    return Agent(server, made.json()["key"])


def deliver(
    server: Server,
    address: str,
    text: str,
    *,
    subject: str = "Your sign-in",
    sender: str = "no-reply@shop.example",
    message_id: str | None = None,
) -> None:
    """Send a mail over SMTP."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, address, subject
    mail["Message-ID"] = message_id or make_msgid(domain="shop.example")
    mail.set_content(text)
    with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as smtp:
        smtp.send_message(mail, "bounce@shop.example", [address])
