"""Send mail to a running server, as mail servers and users do."""

import smtplib
from typing import Any

import httpx

from tests.acceptance.harness import Server


def send_mail(server: Server, *recipients: str, subject: str = "hello", text: str = "Hi") -> None:
    """Send a mail over SMTP; its Message-ID is made of what it says."""
    message_id = f"<{abs(hash((subject, text)))}@example.org>"
    raw = (
        f"From: Shop <shop@example.org>\r\nTo: {recipients[0]}\r\nSubject: {subject}\r\n"
        f"Message-ID: {message_id}\r\n\r\n{text}\r\n"
    )
    with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as smtp:
        smtp.sendmail("shop@example.org", recipients, raw.encode())


def make_inbox(server: Server, **body: Any) -> dict[str, Any]:
    made = server.api("/v1/inboxes", method="POST", json=body)
    assert made.status_code == 201, made.text
    shown: dict[str, Any] = made.json()
    return shown


def read(server: Server, inbox: str, **params: Any) -> httpx.Response:
    return server.api(f"/v1/inboxes/{inbox}/messages", params=params)


def subjects(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [message["subject"] for message in answer.json()["data"]]


def wait_for_mails(server: Server, inbox: str, many: int) -> list[dict[str, Any]]:
    """Read an inbox until it has so many messages, in their order."""
    messages: list[dict[str, Any]] = []
    after = 0
    while len(messages) < many:
        page = read(server, inbox, after=after, wait=20)
        assert page.status_code == 200, page.text
        assert page.json()["data"], f"{len(messages)} of {many} came within 20 s"
        messages += page.json()["data"]
        after = page.json()["next"]
    return messages
