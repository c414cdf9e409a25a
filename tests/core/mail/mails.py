"""Mails for tests, and the short way to read them."""

from collections.abc import Iterable

from mailonce.core.mail.budget import DigestBudget, DigestLimits
from mailonce.core.mail.digest import MailDigest, digest
from mailonce.core.mail.incoming import MailEnvelope, MimeContent

ENVELOPE = MailEnvelope(
    mail_from="ann@example.com", recipients=("bob@in.example.net",), origin="smtp"
)
HEADER = (
    "From: Ann <ann@example.com>\n"
    "To: Bob <bob@in.example.net>\n"
    "Subject: Hello\n"
    "Date: Mon, 05 Jan 2026 10:00:00 +0000\n"
    "Message-ID: <one@example.com>\n"
)


def make_budget(limits: DigestLimits | None = None) -> DigestBudget:
    return DigestBudget(limits or DigestLimits())


def make_mail(body: str | bytes = "Hi\n", *fields: str, header: str = HEADER) -> bytes:
    """Make a mail with CRLF; `fields` are added to its header."""
    lines = "".join(f"{field}\n" for field in fields)
    raw = (header + lines + "\n").encode("utf-8", "surrogateescape")
    raw += body if isinstance(body, bytes) else body.encode("utf-8", "surrogateescape")
    return raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def make_multipart(kind: str, parts: Iterable[tuple[str, str]], boundary: str = "b") -> bytes:
    """Make a multipart mail; each part is its header lines and its body."""
    body = "".join(f"--{boundary}\n{fields}\n\n{text}\n" for fields, text in parts)
    return make_mail(
        f"{body}--{boundary}--\n", f"Content-Type: multipart/{kind}; boundary={boundary}"
    )


def read(
    raw: bytes, envelope: MailEnvelope = ENVELOPE, limits: DigestLimits | None = None
) -> MailDigest:
    return digest(MimeContent(raw), envelope, limits=limits or DigestLimits())
