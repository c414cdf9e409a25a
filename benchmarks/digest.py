"""What reading a mail costs: our digest beside Python's `email` and a plain walk over its parts.

All read the same mails, in rounds that take turns; what counts is the CPU per mail. The digest does
more with each: charsets that lie, the reply without its quotation, reports, and the fingerprint.
"""

import base64
import email
import email.utils
import quopri
import statistics
import time
from collections.abc import Callable
from email.header import decode_header, make_header
from email.message import Message
from email.policy import compat32, default
from hashlib import sha256

from mailonce.core.mail.digest import digest
from mailonce.core.mail.incoming import MailEnvelope, MimeContent

ENVELOPE = MailEnvelope(mail_from="a@example.com", recipients=("b@example.net",), origin="smtp")
# Of `email` with its modern policy, at most this much.
RATIO_MAX = 0.5
TRACE = "".join(
    f"Received: from mx{n}.example.com (mx{n}.example.com [192.0.2.{n}])\n"
    f"\tby relay{n}.example.net with ESMTPS id {n}abc; Mon, 05 Jan 2026 10:00:0{n} +0000\n"
    for n in range(4)
)
HEADER = (
    f"{TRACE}DKIM-Signature: v=1; a=rsa-sha256; d=example.com; s=s1; h=from:to:subject;\n"
    f" b={'A' * 340}\nFrom: =?utf-8?q?J=C3=BCrgen?= <j@example.com>\n"
    'To: "Doe, Ann" <ann@example.net>, bob@example.net\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= 5\n'
    "Date: Mon, 05 Jan 2026 10:00:00 +0000\nMessage-ID: <1@example.com>\nMIME-Version: 1.0\n"
)
ROW = (
    '<tr><td style="font-size:14px;color:#333"><a href="https://example.com/x?y=1">Read more</a> '
    "über alles, was neu ist.</td></tr>\n"
)
TEXT = "Read more über alles, was neu ist.\n"


def make_mails() -> dict[str, bytes]:
    """Make one mail of each kind that an inbox gets."""
    page = quopri.encodestring(f"<table>{ROW * 20}</table>".encode()).decode()
    long_page = quopri.encodestring(f"<table>{ROW * 400}</table>".encode()).decode()
    file = base64.encodebytes(bytes(range(256)) * 1_000).decode()
    quoted = "Yes.\n\nOn Mon, Jan 5, 2026, Ann <ann@example.net> wrote:\n" + "> text\n" * 40
    text = "text/plain; charset=utf-8"
    html = "text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable"
    pdf = "application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64"
    status = (
        "Reporting-MTA: dns; mx.example.net\n\n"
        "Final-Recipient: rfc822; a@b.example\nAction: failed\nStatus: 5.1.1\n"
    )
    report = [(text, TEXT), ("message/delivery-status", status), ("message/rfc822", HEADER)]
    return {
        "plain text": crlf(f"{HEADER}Content-Type: {text}\n\n{TEXT * 10}"),
        "notification": multipart("alternative", [(text, TEXT * 20), (html, page)]),
        "reply": crlf(f"{HEADER}Content-Type: {text}\n\n{quoted}"),
        "newsletter": multipart("alternative", [(text, TEXT * 200), (html, long_page)]),
        "attachment": multipart("mixed", [(text, TEXT), (pdf, file)]),
        "bounce": multipart("report", report),
    }


def multipart(kind: str, parts: list[tuple[str, str]]) -> bytes:
    body = "".join(f"--b1\nContent-Type: {type_}\n\n{content}\n" for type_, content in parts)
    return crlf(f"{HEADER}Content-Type: multipart/{kind}; boundary=b1\n\n{body}--b1--\n")


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def ours(raw: bytes) -> None:
    digest(MimeContent(raw), ENVELOPE)


def email_modern(raw: bytes) -> None:
    message = email.message_from_bytes(raw, policy=default)
    assert str(message["subject"])
    walk(message)


def email_compat32(raw: bytes) -> None:
    message = email.message_from_bytes(raw, policy=compat32)
    assert str(make_header(decode_header(message["subject"])))
    walk(message)


def walk(message: Message) -> None:
    """Read addresses, the date, and the content of each part."""
    email.utils.getaddresses([str(message[name]) for name in ("from", "to")])
    email.utils.parsedate_to_datetime(str(message["date"]))
    for part in message.walk():
        if part.is_multipart():
            continue
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        sha256(content).hexdigest()
        part.get_filename()
        if part.get_content_maintype() == "text":
            content.decode(part.get_content_charset() or "utf-8", "replace")


READERS: dict[str, Callable[[bytes], None]] = {
    "mailonce": ours,
    "email, modern policy": email_modern,
    "email, compat32": email_compat32,
}


def run(*, rounds: int, round_s: float) -> bool:
    """Measure each reader on each mail; say whether the digest keeps to its ratio."""
    mails = make_mails()
    costs: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for kind, raw in mails.items():
            for reader, read in READERS.items():
                costs.setdefault((kind, reader), []).append(_cost_us(read, raw, round_s))
    print(f"\n{'CPU per mail':14} {'size':>8}" + "".join(f"{reader:>24}" for reader in READERS))
    for kind, raw in mails.items():
        figures = [statistics.median(costs[kind, reader]) for reader in READERS]
        print(f"{kind:14} {len(raw) / 1024:5.0f} kB" + "".join(f"{us:21.0f} µs" for us in figures))
    totals = [sum(statistics.median(costs[kind, reader]) for kind in mails) for reader in READERS]
    ratio = totals[0] / totals[1]
    print(
        f"all together: {ratio:.2f} of the modern policy, {totals[0] / totals[2]:.2f} of compat32; "
        f"at most {RATIO_MAX:.2f} of the modern policy is promised"
    )
    return ratio <= RATIO_MAX


def _cost_us(read: Callable[[bytes], None], raw: bytes, seconds: float) -> float:
    read(raw)
    count, began_s = 0, time.process_time()
    while (spent_s := time.process_time() - began_s) < seconds:
        read(raw)
        count += 1
    return spent_s / count * 1e6
