"""A hostile or awkward mail: its bytes, and what may be done with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from mailonce.testing.smtp_sender import SmtpReport, send_mail

# The shop that an agent waits for; `.example` is nobody's (RFC 2606).
SENDER = "login@shop.example"
HOST = "shop.example"
ATTACKER = "attacker.example"
CODE = "492817"
# What nobody should use.
FALSE_CODE = "306152"
LINK = "https://shop.example/verify?token=Zm9vYmFy"
_TO = b"<<to>>"
_NAME = b"<<name>>"


class SafeUse(StrEnum):
    """What a correct agent does with a mail."""

    # Use the value.
    USE = "use"
    # Go on waiting: this is not the mail.
    WAIT = "wait"
    # Use nothing, and ask a person or for another mail: it cannot be told what is meant.
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileMail:
    """One mail, or several that come one after the other, to whom waits for a code or a link.

    The agent waits for `kind` from `SENDER`; a link may lead to `HOST` alone.
    """

    name: str
    about: str
    # As they are sent; `<<to>>` stands for the recipient, `<<name>>` for the name.
    mails: tuple[bytes, ...]
    kind: Literal["code", "link"] = "code"
    # Whatever is done but for these is a fault.
    safe: frozenset[SafeUse]
    value: str = CODE
    # The sender of the envelope, which proves nothing.
    envelope_sender: str = SENDER

    def __str__(self) -> str:
        return self.name

    def raw(self, address: str) -> list[bytes]:
        """Give the mails as they are sent to an address, in their order."""
        return [
            mail.replace(_TO, address.encode()).replace(_NAME, self.name.encode())
            for mail in self.mails
        ]

    def send(self, host: str, port: int, address: str) -> list[SmtpReport]:
        """Send them over SMTP, one after the other; a server may refuse some."""
        return [
            send_mail(host, port, raw, sender=self.envelope_sender, recipients=[address])
            for raw in self.raw(address)
        ]

    def fault(self, value: str | None, *, stopped: bool = False) -> str | None:
        """Say what is wrong with the value that an agent used; None where nothing is.

        Without a value it either went on waiting or, where it `stopped`, gave up or asked.
        """
        if value is None:
            done = SafeUse.STOP if stopped else SafeUse.WAIT
            words = "stopped" if stopped else "went on waiting"
            return None if done in self.safe else f"{self.name}: it {words}; {self._should()}"
        if SafeUse.USE not in self.safe:
            return f"{self.name}: {value!r} was used; {self._should()}"
        return None if value == self.value else f"{self.name}: {value!r} was used; {self._should()}"

    def _should(self) -> str:
        words = {
            SafeUse.USE: f"use {self.value!r}",
            SafeUse.WAIT: "go on waiting",
            SafeUse.STOP: "use nothing and ask",
        }
        allowed = [words[one] for one in SafeUse if one in self.safe]
        return f"it should {' or '.join(allowed)}: {self.about}"


USE = frozenset({SafeUse.USE})
WAIT = frozenset({SafeUse.WAIT})
STOP = frozenset({SafeUse.STOP})
# No value is fit, however that is said.
NOTHING = WAIT | STOP
# It can be read, but whoever does not dare is as safe.
USE_OR_NOTHING = USE | NOTHING


def plain_mail(
    text: str = "",
    *,
    subject: str = "Sign in",
    sender: str = f"Shop <{SENDER}>",
    number: int = 1,
    headers: Sequence[str] = (),
) -> bytes:
    """Write a mail of plain text; `number` makes its Message-ID."""
    return mail_of(
        [*headers, "Content-Type: text/plain; charset=utf-8"],
        text.encode(),
        subject=subject,
        sender=sender,
        number=number,
    )


def html_mail(
    html: str, *, text: str | None = None, number: int = 1, subject: str = "Sign in"
) -> bytes:
    """Write a mail of HTML, with a part of plain text where one is given."""
    if text is None:
        return mail_of(
            ["Content-Type: text/html; charset=utf-8"],
            html.encode(),
            number=number,
            subject=subject,
        )
    parts = [("text/plain; charset=utf-8", text), ("text/html; charset=utf-8", html)]
    return parts_mail(parts, subtype="alternative", number=number, subject=subject)


def parts_mail(
    parts: Sequence[tuple[str, str]],
    *,
    subtype: str = "mixed",
    boundary: str = "frontier",
    number: int = 1,
    subject: str = "Sign in",
) -> bytes:
    """Write a mail of several parts: of each the content type, with further headers, and text."""
    written = [f"--{boundary}\r\nContent-Type: {type_}\r\n\r\n{text}\r\n" for type_, text in parts]
    body = "".join([*written, f"--{boundary}--\r\n"])
    headers = [f'Content-Type: multipart/{subtype}; boundary="{boundary}"']
    return mail_of(headers, body.encode(), number=number, subject=subject)


def mail_of(
    headers: Sequence[str | bytes],
    body: bytes,
    *,
    subject: str = "Sign in",
    sender: str = f"Shop <{SENDER}>",
    number: int = 1,
) -> bytes:
    """Write a mail with further headers; without a date, so that it is never an old one."""
    lines: list[str | bytes] = [
        f"From: {sender}",
        "To: <<to>>",
        f"Subject: {subject}",
        f"Message-ID: <{number}.<<name>>@{HOST}>",
        "MIME-Version: 1.0",
        *headers,
    ]
    written = [line if isinstance(line, bytes) else line.encode() for line in lines]
    return b"\r\n".join([*written, b"", body])
