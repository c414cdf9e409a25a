"""One mail is the same by every way: its bytes, or its fields but for documented differences."""

from typing import Any

import pytest

from mailonce import providers
from mailonce.core.arrivals.provider import Verified
from mailonce.core.events.event import EventType
from mailonce.core.events.key import KeyScope, keys_of
from mailonce.core.mail.incoming import (
    AddressField,
    FetchContent,
    FieldsContent,
    MimeContent,
    stored_content,
)
from tests.providers.inbound.hooks import (
    NOW_S,
    RECIPIENTS,
    SENDER,
    WAYS,
    Rig,
    Way,
    fetched,
    make_mail,
    rig_of,
)

MAIL = make_mail()
SCOPE = KeyScope("w", "p", "a")
every_way = pytest.mark.parametrize("way", WAYS, ids=str)

# What the fields of a mail are, whoever read them.
FIELDS: dict[str, Any] = {
    "message_id": "<m1@example.org>",
    "from_": (AddressField("bob@example.org", "Jörg Bob"),),
    "to": (AddressField("ann@example.net", "Lee, Ann"), AddressField("other@example.net")),
    "cc": (AddressField("cee@example.net"),),
    "reply_to": (AddressField("desk@example.org"),),
    "subject": "Grüße aus Köln",
    "date": "Thu, 01 Jan 2026 00:00:00 +0000",
    "text": "Grüße\n.\nvon Bob\n",
    "html": "<p>Grüße <img src='cid:logo@x'></p>\n",
}
FILES = [
    ("logo.png", b"\x89PNG\x00\xff", "logo@x", True),
    ("invoice 7.pdf", b"%PDF-\xff", None, False),
]
# Where a way differs, its provider's record says so (`InboundHook.differences`).
DIFFERENT_FILES = {
    # Content-IDs are not told.
    "postal-processed": [(name, content, None, False) for name, content, _, _ in FILES],
    "postal-processed-form": [(name, content, None, False) for name, content, _, _ in FILES],
    # Attachments are only named.
    "mailwebhook-generic": [(name, b"", cid, inline) for name, _, cid, inline in FILES],
    "resend-parsed": [(name, b"", cid, inline) for name, _, cid, inline in FILES],
}
FIELD_WAYS = {
    "brevo-parsed",
    "mailgun-parsed",
    "mailjet-parsed",
    "mailwebhook-generic",
    "postal-processed",
    "postal-processed-form",
    "postmark-parsed",
    "resend-parsed",
    "sendgrid-parsed",
}


async def content_of(rig: Rig, mail: bytes) -> MimeContent | FieldsContent:
    """Give the content in the end: fetched, where the hook only announced it."""
    content = rig.mail(mail).content
    if isinstance(content, FetchContent):
        outcome, _ = await fetched(rig, content)
        assert isinstance(outcome, MimeContent | FieldsContent), outcome
        return outcome
    return content


def test_every_provider_that_hands_over_mail_is_simulated() -> None:
    simulated = {rig_of(way).source.provider for way in WAYS}

    records = {name: providers.find(name) for name in providers.BUILTIN}
    assert simulated == {name for name, one in records.items() if one and one.inbound}


@every_way
async def test_a_mail_comes_through_as_the_same_bytes_or_the_same_fields(way: Way) -> None:
    rig = rig_of(way)

    content = await content_of(rig, MAIL)

    if str(way) not in FIELD_WAYS:
        assert content == MimeContent(MAIL)
        return
    assert isinstance(content, FieldsContent)
    read = {name: getattr(content, name) for name in FIELDS}
    read |= {name: str(read[name]).replace("\r\n", "\n") for name in ("text", "html")}
    assert read == FIELDS
    files = [(one.name, one.content, one.content_id, one.is_inline) for one in content.attachments]
    assert files == DIFFERENT_FILES.get(str(way), FILES)
    assert all(one.is_missing == (not one.content) for one in content.attachments)


@every_way
def test_the_envelope_is_the_transports_and_no_header_has_a_say(way: Way) -> None:
    """The mail's own headers name other people, and claim to be the envelope in every way."""
    forged = make_mail(
        Return_Path="<forged@example.com>",
        Delivered_To="victim@example.net",
        X_Original_To="victim@example.net",
        X_Envelope_To="victim@example.net",
        Resent_To="victim@example.net",
        Apparently_To="victim@example.net",
    )
    # Of those who have the option, only Brevo's simulator needs it to be true.
    options = {"recipients_from_headers": False} if way.name == "brevo" else {}
    rig = rig_of(way, **options)

    mails = [mail for post in rig.posts(forged) for mail in rig.parse(post).mails]

    envelopes = [mail.envelope for mail in mails]
    if way.name == "brevo":
        assert [one.origin for one in envelopes] == ["absent"]
        assert envelopes[0].recipients == ()
        return
    assert [one for envelope in envelopes for one in envelope.recipients] == list(RECIPIENTS)
    assert {one.origin for one in envelopes} == {"provider"}
    assert {one.mail_from for one in envelopes} <= {SENDER, None}


@every_way
def test_posts_are_proven_and_a_retry_that_was_written_anew_is_the_same_mail(way: Way) -> None:
    rig = rig_of(way)

    first, again = (rig.posts(MAIL, now_s=now_s) for now_s in (NOW_S, NOW_S + 60))

    assert all(rig.judge(post) == Verified() for post in (*first, *again))
    for one, other in zip(first, again, strict=True):
        before, after = rig.parse(one), rig.parse(other)
        for mail, copy in zip(before.mails, after.mails, strict=True):
            assert stored_content(mail.content) == stored_content(copy.content)
            assert (mail.envelope, mail.delivery_id) == (copy.envelope, copy.delivery_id)
        keys = [
            [keys_of(SCOPE, event.identity) for event in parsed.events]
            for parsed in (before, after)
        ]
        assert keys[0] == keys[1]


@every_way
def test_a_stable_id_is_given_where_the_record_names_one(way: Way) -> None:
    rig = rig_of(way)
    hook = rig.provider.inbound
    assert hook is not None

    mail = rig.mail(MAIL)

    assert (mail.delivery_id is not None) == (hook.delivery_id is not None)
    assert mail.is_signed == hook.signs_mail


@every_way
def test_two_mails_are_two(way: Way) -> None:
    rig = rig_of(way)
    other = MAIL.replace(b"m1@example.org", b"m2@example.org")

    one, two = rig.mail(MAIL), rig.mail(other)

    assert stored_content(one.content) != stored_content(two.content)
    if one.delivery_id is not None:
        assert one.delivery_id != two.delivery_id


@every_way
def test_every_mail_has_its_event(way: Way) -> None:
    parsed = rig_of(way).parse(rig_of(way).post(MAIL))

    assert {event.type for event in parsed.events} == {EventType.INBOUND}
