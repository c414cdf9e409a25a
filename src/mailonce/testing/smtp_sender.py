"""A mail server that sends again, because the answer to its last dot was lost.

It is the one moment of SMTP at which nobody knows: the receiver has the mail, and the sender does
not know that. So the sender keeps it, and sends the same bytes again in a new session (RFC 1047).
"""

import re
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

TIMEOUT_S = 30.0
ATTEMPTS_MAX = 10
# A server that accepts a mail says so with this code.
ACCEPTED = 250

_LINE_END = re.compile(rb"\r\n|\r|\n")
_DOT = re.compile(rb"(?m)^\.")


@dataclass(slots=True)
class SmtpReport:
    """The reply to each attempt that the sender has seen; None where it was lost."""

    codes: list[int | None] = field(default_factory=list)
    # What was said last, or what went wrong.
    reply: str = ""

    @property
    def is_accepted(self) -> bool:
        """Whether the sender knows that the mail was taken."""
        return bool(self.codes) and self.codes[-1] == ACCEPTED


def send_mail(
    host: str,
    port: int,
    mail: bytes,
    *,
    sender: str,
    recipients: Sequence[str],
    lost_answers: int = 0,
    hangs_up: bool = False,
    tls: ssl.SSLContext | None = None,
    attempts_max: int = ATTEMPTS_MAX,
    timeout_s: float = TIMEOUT_S,
) -> SmtpReport:
    """Send a mail until it is accepted or refused for good; blocking, as smtplib is.

    Of the first `lost_answers` attempts the reply to the last dot is lost: it came, and was not
    read. Where `hangs_up`, the connection ends right behind the dot instead, and the receiver may
    not even have seen it. `tls` asks for STARTTLS.
    """
    report = SmtpReport()
    for attempt in range(attempts_max):
        loses = attempt < lost_answers
        try:
            code, reply = _attempt(
                (host, port, timeout_s, tls), mail, sender, recipients, hangs_up=loses and hangs_up
            )
        except (OSError, smtplib.SMTPException) as error:
            code, reply = None, f"{type(error).__name__}: {error}"
        report.codes.append(None if loses else code)
        report.reply = reply
        if not loses and code is not None and not 400 <= code < 500:
            break
    return report


def _attempt(
    place: tuple[str, int, float, ssl.SSLContext | None],
    mail: bytes,
    sender: str,
    recipients: Sequence[str],
    *,
    hangs_up: bool,
) -> tuple[int | None, str]:
    host, port, timeout_s, tls = place
    with smtplib.SMTP(host, port, local_hostname="sender.example.org", timeout=timeout_s) as client:
        client.ehlo()
        if tls is not None:
            client.starttls(context=tls)
            client.ehlo()
        for code, reply in _envelope(client, sender, recipients):
            if code >= 300:
                return code, reply.decode("utf-8", "replace")
        code, reply = client.docmd("DATA")
        if code != 354:
            return code, reply.decode("utf-8", "replace")
        client.send(written(mail))
        if hangs_up:
            client.close()
            return None, "hung up"
        code, reply = client.getreply()
        return code, reply.decode("utf-8", "replace")


def _envelope(
    client: smtplib.SMTP, sender: str, recipients: Sequence[str]
) -> "list[tuple[int, bytes]]":
    replies = [client.mail(sender)]
    for recipient in recipients:
        if replies[-1][0] >= 300:
            break
        replies.append(client.rcpt(recipient))
    return replies


def written(mail: bytes) -> bytes:
    """Write a mail as it goes over the line: CRLF, dots doubled, and the last dot."""
    lines = _LINE_END.sub(b"\r\n", mail)
    ended = lines if lines.endswith(b"\r\n") else lines + b"\r\n"
    return _DOT.sub(b"..", ended) + b".\r\n"
