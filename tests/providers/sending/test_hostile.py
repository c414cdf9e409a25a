"""Hostile mails and hostile answers: nothing raises, and nothing gets a second recipient."""

import json
from collections.abc import Iterator
from dataclasses import replace
from email.utils import getaddresses
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment
from mailonce.core.sends.send_key import SendKey
from mailonce.core.sends.send_request import Recipient, SendRequest, check_request
from mailonce.core.sends.sending import (
    Accepted,
    Found,
    HttpRequest,
    NotFound,
    NotSent,
    ProviderAnswer,
    SmtpRequest,
    TryAgain,
    Unknown,
)
from mailonce.errors import ParseError
from mailonce.providers import sending
from tests.core.sends.mails import CORRELATION, NOON_MS, UUID, plain_mail
from tests.providers.sending.golden import FACTS, sender_of, sending_of

NAMES = [name for name in sending.names() if name != "smtp"]
WORDS = """
id MessageId MessageID messageId ErrorCode status Status name code data messages Messages items
results errors success succeeded failures emails events Data transactionalEmails count metadata
Metadata tags custom_variables rcpt_meta CustomID email message to_email headers __type
total_accepted_recipients To Errors StatusCode warnings user-variables
""".split()  # noqa: SIM905
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["success", "error", "sent", "rejected", "ALL_SUPPRESSED", UUID, ""])
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=12,
)
STATUSES = st.sampled_from([100, 200, 201, 202, 204, 301, 303, 400, 401, 409, 421, 422, 429, 500])
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "x-message-id", "x-amzn-errortype", "x-ratelimit-reset"]),
    st.text(max_size=40),
)


@settings(max_examples=6 * settings().max_examples, deadline=None)
@given(
    status=STATUSES,
    headers=HEADERS,
    body=VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60),
    is_whole=st.booleans(),
)
def test_no_answer_raises(
    status: int, headers: dict[str, str], body: bytes, *, is_whole: bool
) -> None:
    answer = ProviderAnswer(
        status=status, headers=headers, body=body, is_whole=is_whole, received_ms=NOON_MS
    )
    for found in map(sending_of, NAMES):
        assert found.read_answer is not None

        outcome = found.read_answer(answer)

        assert isinstance(outcome, Accepted | NotSent | TryAgain | Unknown)
        if isinstance(outcome, Accepted):
            assert 200 <= status < 300
        if found.read_lookup is not None:
            looked_up = found.read_lookup(answer, CORRELATION, FACTS)
            assert isinstance(looked_up, Found | NotFound | Unknown)


LINES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60)
HARD = st.sampled_from(
    ['"', '" <eve@example.org>, "', "a,b", "<eve@example.org>", "\\", '\\"', "=?utf-8?q?x?=", "a;b"]
)


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(to=LINES | HARD, from_=LINES | HARD, subject=LINES | HARD, value=LINES, file=LINES | HARD)
def test_whatever_may_be_submitted_has_one_recipient(
    to: str, from_: str, subject: str, value: str, file: str
) -> None:
    mail = plain_mail(
        to=Mailbox("ann@example.net", to),
        from_=Mailbox("shop@example.com", from_),
        reply_to=(Mailbox("help@example.com", to),),
        subject=subject,
        headers=(("X-A", value),),
        metadata={"a": value},
        html=f"<p>{subject}</p>",
        attachments=(OutgoingAttachment(name=file or "a", type="a/b", content=b"c"),),
    )
    request = SendRequest(
        key=SendKey("k", is_given=True),
        recipients=(Recipient(mail.to, mail.to.address),),
        from_=mail.from_,
        subject=mail.subject,
        text=mail.text,
        html=mail.html,
        reply_to=mail.reply_to,
        headers=mail.headers,
        attachments=mail.attachments,
        metadata=mail.metadata,
    )
    try:
        check_request(request, mail_bytes_max=1 << 20)
    except ParseError:
        return

    for name in sending.names():
        built = sending_of(name).build(mail, CORRELATION, sender_of(name))

        match built:
            case SmtpRequest(rcpt_to=rcpt_to, message=message):
                assert rcpt_to == "ann@example.net"
                assert_one_recipient(message)
            case HttpRequest(body=body) if name == "mailgun":
                assert_one_recipient(body.partition(b"message/rfc822\r\n\r\n")[2])
                assert body.count(b'form-data; name="to"') == 1
            case HttpRequest(body=body):
                assert list(addresses_in(json.loads(body))) == ["ann@example.net"]


def assert_one_recipient(message: bytes) -> None:
    head = message.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ")
    lines = [line.partition(": ") for line in head.split("\r\n")]
    values = [value for name, _, value in lines if name.lower() in {"to", "cc", "bcc"}]
    assert len(values) == 1
    assert [address for _, address in getaddresses(values)] == ["ann@example.net"]


RECIPIENTS = {"to", "To", "cc", "Cc", "bcc", "Bcc", "rcpt_to", "ToAddresses", "recipients"}


def addresses_in(value: Any, *, is_recipient: bool = False) -> Iterator[str]:
    """Give the addresses that stand where a provider looks for recipients."""
    if isinstance(value, dict):
        for name, inner in value.items():
            is_address = is_recipient and name in {"email", "Email", "address"}
            if name in RECIPIENTS or is_address:
                yield from addresses_in(inner, is_recipient=True)
            elif not is_recipient:
                yield from addresses_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from addresses_in(inner, is_recipient=is_recipient)
    elif is_recipient and isinstance(value, str):
        # Python's own reader stumbles over hard names, so a name is cut off at its quotes.
        bare = value.rpartition("<")[2].rstrip(">") if value.endswith(">") else value
        assert "," not in value or value.count('"') >= 2
        yield bare


def test_a_credential_with_a_line_break_never_reaches_a_header() -> None:
    sender = replace(sender_of("resend"), secrets=("key\r\nX-Evil: 1",))
    request = sending_of("resend").build(plain_mail(), CORRELATION, sender)
    assert isinstance(request, HttpRequest)

    authorized = sending_of("resend").authorize(request, sender, NOON_MS)

    # It is refused when the sender is made, and again by the client (tests/net/test_call.py).
    assert ("Authorization", "Bearer key\r\nX-Evil: 1") in authorized.headers
