"""Mail for a running server: inboxes made over the API, mail sent over SMTP."""

import json
import smtplib
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance.harness import Server

SENDER = "shop@example.org"


def make_inbox(server: Server, **fields: Any) -> dict[str, Any]:
    answer = server.api("/v1/inboxes", method="POST", json=fields)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def make_mail(number: int | str, *, to: str, text: str = "Thanks for your order.") -> bytes:
    """Write a mail of its own, as a shop would."""
    lines = (
        f"From: The Shop <{SENDER}>",
        f"To: {to}",
        f"Subject: order {number}",
        f"Message-ID: <order-{number}@example.org>",
        "Date: Tue, 17 Nov 2026 08:00:00 +0000",
        "",
        text,
        "",
    )
    return "\r\n".join(lines).encode()


def send(server: Server, raw: bytes, *to: str, timeout_s: float = 30) -> None:
    """Send a mail and wait for the answer."""
    with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=timeout_s) as smtp:
        smtp.sendmail(SENDER, list(to), raw)


def send_unheard(server: Server, raw: bytes, to: str) -> None:
    """Send a mail whole, and hang up before the answer to its last line."""
    with socket.create_connection(("127.0.0.1", server.smtp_port), timeout=30) as peer:
        file = peer.makefile("rb")
        file.readline()
        for line in (b"EHLO a.example", b"MAIL FROM:<shop@example.org>", f"RCPT TO:<{to}>".encode(),
                     b"DATA"):  # fmt: skip
            peer.sendall(line + b"\r\n")
            while file.readline()[3:4] == b"-":
                pass
        peer.sendall(raw + b".\r\n")


def messages(server: Server, inbox: str) -> list[dict[str, Any]]:
    """Read all messages of an inbox, page after page."""
    rows: list[dict[str, Any]] = []
    after = 0
    while True:
        page = server.get(f"/v1/inboxes/{inbox}/messages", after=after, limit=100)
        rows += page["data"]
        if not page["data"]:
            return rows
        after = page["next"]


def readable_seq(server: Server, inbox: dict[str, Any]) -> int:
    """Say up to which number all mail of an inbox was read."""
    page = server.get(f"/v1/inboxes/{inbox['id']}/messages", after=0, limit=1000)
    seq: int = page["next"]
    return seq


@dataclass
class Senders:
    """Threads that send mail until they are stopped, and what was answered with 250."""

    server: Server
    inboxes: list[str]
    numbers: Iterator[int]
    accepted: list[tuple[int, str]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, many: int) -> "Senders":
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(many)]
        for thread in self.threads:
            thread.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self.threads)

    def _run(self) -> None:
        while not self.stopping.is_set():
            with suppress(OSError, smtplib.SMTPException):
                self._send_on_one_connection()
            self.stopping.wait(0.02)

    def _send_on_one_connection(self) -> None:
        with smtplib.SMTP("127.0.0.1", self.server.smtp_port, timeout=10) as smtp:
            while not self.stopping.is_set():
                number = next(self.numbers)
                to = self.inboxes[number % len(self.inboxes)]
                smtp.sendmail(SENDER, [to], make_mail(number, to=to))
                self.accepted.append((number, to))


def bodies(requests: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in requests]
