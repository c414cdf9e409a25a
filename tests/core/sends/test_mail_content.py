"""The content of a mail: kept once, and the same in every attempt."""

from msgspec.structs import replace

from mailonce.core.sends.mail_content import (
    UNSUBSCRIBE_PLACE,
    MailContent,
    mail_of,
    read_content,
    written_content,
)
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment

UUID = "0d9f1c1e-7a55-5d3b-9f0e-6d61696c6f6e"
URL = "https://mail.example.com/u/token"
ANN = Mailbox("ann@example.com", "Ann")
CONTENT = MailContent(
    from_=Mailbox("shop@example.com", "Shop"),
    subject="Hello",
    text="Hello",
    html=f"<p>Hello <a href='{UNSUBSCRIBE_PLACE}'>no more</a>",
    reply_to=(Mailbox("help@example.com"),),
    headers=(("X-Order", "1"),),
    attachments=(OutgoingAttachment(name="a", type="a/b", content=b"\x00\xff"),),
    tags=("a",),
    metadata={"order": "1"},
)


def test_what_is_kept_is_read_as_it_was() -> None:
    assert read_content(written_content(CONTENT)) == CONTENT


def test_a_mail_has_our_own_message_id_and_the_recipient_alone() -> None:
    mail = mail_of(CONTENT, ANN, uuid=UUID, stream="news", unsubscribe_url=None)

    assert mail.message_id == f"<{UUID}@example.com>"
    assert (mail.to, mail.from_, mail.stream) == (ANN, CONTENT.from_, "news")
    assert (mail.headers, mail.attachments) == (CONTENT.headers, CONTENT.attachments)


def test_a_domain_in_another_script_is_written_in_ascii() -> None:
    ids = [
        mail_of(
            replace(CONTENT, from_=Mailbox(f"a@{domain}")), ANN, uuid=UUID, stream="",
            unsubscribe_url=None,
        ).message_id
        for domain in ("münchen.example", "a..b")
    ]  # fmt: skip

    assert ids == [f"<{UUID}@xn--mnchen-3ya.example>", f"<{UUID}@mailonce.invalid>"]


def test_a_link_stands_in_the_header_and_where_the_template_wants_it() -> None:
    content = replace(CONTENT, is_unsubscribable=True)

    mail = mail_of(content, ANN, uuid=UUID, stream="news", unsubscribe_url=URL)

    assert mail.headers[1:] == (
        ("List-Unsubscribe", f"<{URL}>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
    )
    assert mail.html == f"<p>Hello <a href='{URL}'>no more</a>"


def test_a_callers_own_link_is_left_alone() -> None:
    own = (("list-unsubscribe", "<https://shop.example.com/u>"),)
    content = replace(CONTENT, is_unsubscribable=True, headers=own)

    assert mail_of(content, ANN, uuid=UUID, stream="", unsubscribe_url=URL).headers == own
