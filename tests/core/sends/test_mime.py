"""A mail as MIME: every reader finds in it what went in, and nothing else."""

import re
from email import message_from_bytes, policy
from email.message import EmailMessage

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mailonce.core.sends.mime import mime_of
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment, OutgoingMail
from tests.core.sends.mails import CORRELATION, UUID, full_mail, plain_mail

TEXTS = st.text(max_size=1_500)
LINES = st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cs"])
NAMES = st.text(LINES, min_size=1, max_size=120).map(str.strip).filter(bool)


def parsed(raw: bytes) -> EmailMessage:
    return message_from_bytes(raw, policy=policy.default)


def normal(text: str) -> str:
    return re.sub("\r\n|\r|\n", "\n", text if text.endswith("\n") else f"{text}\n")


def test_a_plain_mail_is_one_part() -> None:
    assert mime_of(plain_mail(), CORRELATION) == (
        b"Date: Tue, 17 Nov 2026 08:30:00 +0000\r\n"
        b"From: <shop@example.com>\r\n"
        b"To: <ann@example.net>\r\n"
        b"Subject: Your code\r\n"
        b"Message-ID: <953c7e4c-01ad-5da7-984f-5cf5f0ae4d49@example.com>\r\n"
        b"X-Mailonce-Id: 953c7e4c-01ad-5da7-984f-5cf5f0ae4d49\r\n"
        b"MIME-Version: 1.0\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\n"
        b"Content-Transfer-Encoding: 7bit\r\n"
        b"\r\n"
        b"It is 123456.\r\n"
    )


def test_a_full_mail_is_nested_as_readers_expect() -> None:
    mail = parsed(mime_of(full_mail(), CORRELATION))

    assert [part.get_content_type() for part in mail.walk()] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "application/pdf",
    ]
    assert mail["x-mailonce-id"] == UUID
    assert mail["list-unsubscribe"] == "<https://example.com/u/1>"
    assert [str(one) for one in mail["reply-to"].addresses] == [
        "Help <help@example.com>",
        "info@example.com",
    ]
    inline = next(part for part in mail.walk() if part.get_content_type() == "image/png")
    assert inline["content-id"] == "<logo@example.com>"
    assert [part.get_filename() for part in mail.iter_attachments()] == ["receipt.pdf"]


def test_the_same_mail_makes_the_same_bytes() -> None:
    assert mime_of(full_mail(), CORRELATION) == mime_of(full_mail(), CORRELATION)


def test_without_a_date_of_its_own_a_mail_is_as_old_as_its_send() -> None:
    raw = mime_of(plain_mail(date_ms=None), CORRELATION)

    assert raw.startswith(b"Date: Sat, 25 Oct 2025 11:41:15 +0000\r\n")


def test_mail_in_a_mail_is_a_file_like_another() -> None:
    inner = OutgoingAttachment(name="a.eml", type="message/rfc822", content=b"A: b\r\n\r\nc")

    mail = parsed(mime_of(plain_mail(attachments=(inner,)), CORRELATION))

    (file,) = mail.iter_attachments()
    assert (file.get_content_type(), file.get_content()) == (
        "application/octet-stream",
        inner.content,
    )


def test_only_an_address_that_is_not_ascii_makes_a_header_so() -> None:
    raw = mime_of(plain_mail(to=Mailbox("änne@exämple.net", "Ä"), text="ä" * 2_000), CORRELATION)

    head, _, body = raw.partition(b"\r\n\r\n")
    assert "\r\nTo: =?utf-8?b?w4Q=?= <änne@xn--exmple-cua.net>\r\n".encode() in head
    assert body.isascii()


@settings(max_examples=6 * settings().max_examples, deadline=None)
@given(name=NAMES, text=TEXTS, html=TEXTS, content=st.binary(max_size=300), file=NAMES)
@example(name="Shop", text="", html="", content=b"", file="<>")
def test_whatever_is_allowed_is_read_back(
    name: str, text: str, html: str, content: bytes, file: str
) -> None:
    files = (
        OutgoingAttachment(name=file, type="image/png", content=content),
        OutgoingAttachment(name=file, type="image/png", content=content, content_id="a@b"),
    )
    mail: OutgoingMail = plain_mail(
        from_=Mailbox("shop@example.com", name),
        subject=name,
        text=text,
        html=html,
        headers=(("X-A", name),),
        attachments=files,
    )

    raw = mime_of(mail, CORRELATION)

    assert raw.isascii()
    assert raw.count(b"\r\n") == raw.count(b"\n") == raw.count(b"\r")
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    read = parsed(raw)
    assert [header.lower() for header in read] == [
        "date", "from", "to", "subject", "message-id", "x-mailonce-id", "x-a",
        "mime-version", "content-type",
    ]  # fmt: skip
    assert read["subject"] == name
    parts = [part for part in read.walk() if not part.is_multipart()]
    first, second, *others = [part.get_content() for part in parts]
    assert (normal(first), normal(second)) == (normal(text), normal(html))
    assert others == [content, content]
    # `get_filename` takes brackets and quotes off that are the name's own.
    assert parts[3]["content-disposition"].params["filename"] == file
