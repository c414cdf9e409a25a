"""A request to send: what is wrong with it is said in a sentence that names the field."""

from typing import Any

import pytest

from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment
from mailonce.core.sends.send_request import SendPriority, check_request
from mailonce.core.work.states import AttemptKind
from mailonce.errors import ParseError, SizeError
from tests.core.sends.send_requests import make_recipient, make_request

INJECTED = "Hello\r\nBcc: everybody@example.com"


def file(**changes: Any) -> OutgoingAttachment:
    given = {"name": "a.pdf", "type": "application/pdf", "content": b"%PDF"}
    return OutgoingAttachment(**given | changes)


WRONG: dict[str, dict[str, Any]] = {
    "`to` has 0 recipients": {"recipients": ()},
    "`to` has 1001 recipients": {
        "recipients": tuple(make_recipient(f"a{n}@example.com") for n in range(1001))
    },
    "twice; name each address once": {
        "recipients": (make_recipient("ann@example.com"), make_recipient("Ann@Example.com"))
    },
    "`to` has 'nobody', which is no address": {"recipients": (make_recipient("nobody"),)},
    "`to name` has a line break": {"recipients": (make_recipient("a@b.c", INJECTED),)},
    "`from` has 'a b@c.d'": {"from_": Mailbox("a b@c.d")},
    "`from name` has a line break": {"from_": Mailbox("a@b.c", INJECTED)},
    "`reply_to` has": {"reply_to": (Mailbox("a@b.c\r\nBcc: x@y.z"),)},
    "`reply_to` has more": {"reply_to": (Mailbox("a@b.c"),) * 11},
    "`subject` has a line break": {"subject": INJECTED},
    "`subject` is longer": {"subject": "x" * 999},
    "`subject` is missing": {"subject": None},
    "the mail is empty; give": {"text": None},
    "the mail is empty: there is nothing in its `text` or `html`": {"text": " \n", "html": ""},
    "`subject` is empty": {"subject": " "},
    "`subject` stands beside `template`": {"template": "t", "text": None},
    "`variables` are those of a `template`": {"variables": {"a": 1}},
    "`text` has a character that cannot be kept": {"text": "a\x00b"},
    "`stream` has a line break": {"stream": "a\nb"},
    "no name of a header": {"headers": (("X A:", "b"),)},
    "`headers.X-A` has a line break": {"headers": (("X-A", INJECTED),)},
    "`headers` has more": {"headers": (("X-A", "b"),) * 31},
    "`attachments` has more": {"attachments": (file(),) * 51},
    "`attachments` has the name": {"attachments": (file(name="../a"),)},
    "`attachments.name` has a line break": {"attachments": (file(name="a\r\nb"),)},
    "`attachments` has the type": {"attachments": (file(type='a/b; name="x"'),)},
    "`attachments` has the content id": {"attachments": (file(content_id="a b"),)},
    "`tags` has more": {"tags": ("a",) * 11},
    "`tags` has 'a,b'": {"tags": ("a,b",)},
    "`metadata` has more": {"metadata": {f"a{n}": "b" for n in range(21)}},
    "`metadata` has the name": {"metadata": {"a b": "c"}},
    "`metadata` has 'mailonce_id'": {"metadata": {"mailonce_id": "x"}},
    "`metadata.a` has a line break": {"metadata": {"a": INJECTED}},
}


def test_a_plain_request_is_right() -> None:
    check_request(make_request(), mail_bytes_max=1000)
    check_request(
        make_request(
            html="<p>Thank you.",
            attachments=(file(content_id="logo@shop"),),
            headers=(("X-Order", "1"), ("List-Unsubscribe", "<https://example.com/u>")),
            metadata={"order": "1"},
            tags=("receipt",),
            reply_to=(Mailbox("help@example.com"),),
        ),
        mail_bytes_max=1000,
    )
    check_request(make_request(text="", attachments=(file(),)), mail_bytes_max=1000)


def test_what_is_wrong_is_named(subtests: pytest.Subtests) -> None:
    for words, changes in WRONG.items():
        with subtests.test(words), pytest.raises(ParseError) as refused:
            check_request(make_request(**changes), mail_bytes_max=1000)
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    ["From", "bcc", "Message-ID", "Content-Type", "X-Mailonce-Id", "X-SMTPAPI", "X-SES-RETURN-PATH",
     "Resend-Idempotency-Key", "idempotencyKey", "DKIM-Signature"],
)  # fmt: skip
def test_a_header_that_changes_who_gets_the_mail_is_refused(name: str) -> None:
    with pytest.raises(ParseError, match="take it away"):
        check_request(make_request(headers=((name, "x"),)), mail_bytes_max=1000)


def test_a_mail_above_the_limit_is_refused_with_its_size() -> None:
    large = make_request(attachments=(file(content=b"x" * (25 << 20)),))

    with pytest.raises(SizeError, match="26214410 bytes, the limit is 10485760; send a link"):
        check_request(large, mail_bytes_max=10 << 20)


def test_many_recipients_wait_for_few() -> None:
    few, many = (make_request(*(f"a{n}@example.com" for n in range(count))) for count in (10, 11))

    assert few.default_priority is SendPriority.NORMAL
    assert many.default_priority is SendPriority.LOW
    assert [one.lane for one in SendPriority] == list(AttemptKind)
