"""Mail without an id: copies of one are one event, whatever a retry writes anew."""

import pytest

from mailonce.core.events.key import KeyScope, keys_of
from mailonce.core.mail.incoming import (
    FetchContent,
    FieldsContent,
    IncomingMail,
    MailContent,
    MailEnvelope,
    MimeContent,
)
from mailonce.core.reading.inbound_event import inbound_event, mail_recipe

RECIPE = mail_recipe("acme")
SCOPE = KeyScope("w", "acme", "a")


def mail(content: MailContent, *recipients: str) -> IncomingMail:
    envelope = MailEnvelope(mail_from="b@x", recipients=recipients or ("in@x",), origin="provider")
    return IncomingMail(envelope=envelope, content=content)


@pytest.mark.parametrize(
    ("raw", "message_id"),
    [
        (b"Message-ID: <m@x>\r\n\r\n", "<m@x>"),
        (b"From: a\nmessage-id:\n <m@x>\nTo: b\n\n", "<m@x>"),
        (b"From: a\r\n\r\nMessage-ID: <body@x>", ""),
        (b"X-Message-ID: <m@x>\r\n\r\n", ""),
        (b"", ""),
    ],
)
def test_a_mail_is_shown_by_the_id_in_its_head(raw: bytes, message_id: str) -> None:
    event = inbound_event(mail(MimeContent(raw)), RECIPE, raw=None)

    assert event.message_id == message_id


def test_fields_have_their_id_and_what_is_to_be_fetched_has_none() -> None:
    fields = inbound_event(mail(FieldsContent(message_id="<m@x>")), RECIPE, raw=None)
    fetched = inbound_event(mail(FetchContent(what="w", arguments={})), RECIPE, raw=None)

    assert (fields.message_id, fetched.message_id) == ("<m@x>", "")


def test_equal_mails_have_one_key_and_others_have_their_own() -> None:
    first = mail(MimeContent(b"a"))
    others = [mail(MimeContent(b"b")), mail(MimeContent(b"a"), "other@x")]

    keys = [
        keys_of(SCOPE, inbound_event(one, RECIPE, raw=None).identity).key
        for one in (first, mail(MimeContent(b"a")), *others)
    ]

    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_of_several_recipients_none_is_certain() -> None:
    event = inbound_event(mail(MimeContent(b"a"), "a@x", "b@x"), RECIPE, raw=None)

    assert (event.recipient, event.certain) == ("", False)
