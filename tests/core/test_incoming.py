"""A mail's content is kept as bytes and read back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail.incoming import (
    AddressField,
    Authentication,
    AuthenticationCheck,
    FetchContent,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MailContent,
    MailEnvelope,
    MimeContent,
    SpamVerdict,
    read_content,
    read_facts,
    stored_content,
    stored_facts,
)

_ADDRESSES = st.lists(st.builds(AddressField, st.text(), st.none() | st.text()), max_size=2)
_ATTACHMENTS = st.lists(
    st.builds(
        FieldAttachment,
        name=st.none() | st.text(),
        type=st.text(),
        content=st.binary(max_size=50),
        content_id=st.none() | st.text(),
        is_inline=st.booleans(),
    ),
    max_size=2,
)
_FIELDS = st.builds(
    FieldsContent,
    headers=st.lists(st.tuples(st.text(), st.text()), max_size=3).map(tuple),
    from_=_ADDRESSES.map(tuple),
    subject=st.none() | st.text(),
    html=st.none() | st.text(),
    attachments=_ATTACHMENTS.map(tuple),
)


@given(_FIELDS | st.builds(MimeContent, st.binary()))
def test_content_is_read_back_as_it_was(content: MailContent) -> None:
    assert read_content(*stored_content(content)) == content


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_equal_content_makes_equal_bytes(order: tuple[str, str]) -> None:
    content = FetchContent(what="test.mail", arguments=dict.fromkeys(order, "1"))

    assert stored_content(content)[1] == b'{"arguments":{"a":"1","b":"1"},"what":"test.mail"}'


def test_what_is_known_of_a_mail_is_read_back_without_its_content() -> None:
    mail = IncomingMail(
        envelope=MailEnvelope(mail_from="", recipients=("a@b.c",), origin="smtp"),
        content=MimeContent(b"hello"),
        delivery_id="d-1",
        authentication=Authentication(dkim=(AuthenticationCheck(result="pass", domain="b.c"),)),
        spam=SpamVerdict(score=1.5),
    )

    stored = stored_facts(mail.facts)

    assert read_facts(stored) == mail.facts
    assert b"hello" not in stored
