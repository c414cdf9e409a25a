"""Envelopes and the parts of a mail, as providers hand them over."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import AddressField, MailEnvelope, MimeContent
from mailonce.core.reading import mail_fields
from mailonce.errors import ParseError

SOURCE = Source(id="s", workspace="w", name="n", provider="p", account="a")


@pytest.mark.parametrize(
    ("given", "recipients"),
    [
        ("In+7@Example.net", ("In+7@Example.net",)),
        ("<in@example.net>", ("in@example.net",)),
        (["a@x", "b@x", "a@x"], ("a@x", "b@x")),
        ('"a b"@x', ('"a b"@x',)),
        ("grüße@exämple.net", ("grüße@exämple.net",)),
        ("nobody", ()),
        ("", ()),
        (None, ()),
        ([None, 5, {}, "a@x"], ("a@x",)),
        # Cut or mended, each of these could become somebody else's address.
        ("a@x\nb@y", ()),
        ("a\x00@x", ()),
        ("a\ud800@x", ()),
        ("a" * 320 + "@x", ()),
    ],
)
def test_a_recipient_is_taken_as_it_was_written_or_not_at_all(
    given: Any, recipients: tuple[str, ...]
) -> None:
    assert mail_fields.recipients_of(given) == recipients


def test_more_recipients_than_any_mail_has_are_refused_not_cut() -> None:
    people = [f"a{number}@x" for number in range(mail_fields.RECIPIENTS_MAX + 1)]

    with pytest.raises(ParseError):
        mail_fields.recipients_of(people)


@pytest.mark.parametrize(
    ("given", "sender"),
    [("b@x", "b@x"), ("<b@x>", "b@x"), ("", ""), ("<>", ""), (None, None), ("no\nbody@x", None)],
)
def test_the_null_sender_is_not_an_unknown_one(given: Any, sender: str | None) -> None:
    assert mail_fields.mail_from_of(given) == sender


def test_an_envelope_without_recipients_is_absent() -> None:
    envelope = mail_fields.envelope_of("b@x", [])

    assert envelope == MailEnvelope(mail_from="b@x", recipients=(), origin="absent")


@pytest.mark.parametrize("option", [None, False, "true", 1])
def test_headers_decide_only_where_the_operator_says_so(option: Any) -> None:
    people = [AddressField("in@x", "In")]
    options = {} if option is None else {mail_fields.HEADERS_DECIDE: option}
    allowed = Source(**{**_fields(), "options": {mail_fields.HEADERS_DECIDE: True}})
    other = Source(**{**_fields(), "options": options})

    assert mail_fields.envelope_by_headers(other, None, people).recipients == ()
    assert mail_fields.envelope_by_headers(other, None, people).origin == "absent"
    assert mail_fields.envelope_by_headers(allowed, None, people) == MailEnvelope(
        mail_from=None, recipients=("in@x",), origin="header"
    )


def _fields() -> dict[str, Any]:
    return {"id": "s", "workspace": "w", "name": "n", "provider": "p", "account": "a"}


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ([["A", "1"], ["a", "2"]], [("A", "1"), ("a", "2")]),
        ({"A": "1", "B": ["2", "3"]}, [("A", "1"), ("B", "2"), ("B", "3")]),
        ([{"Name": "A", "Value": "1"}, {"Name": 5}], [("A", "1")]),
        ([["A"], "x", None, ["A", 5]], []),
        (None, []),
    ],
)
def test_headers_are_read_in_every_form_that_providers_have(
    given: Any, pairs: list[tuple[str, str]]
) -> None:
    assert list(mail_fields.header_pairs(given, name="Name", value="Value")) == pairs


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_header_block_is_unfolded_and_keeps_repeats(end: str) -> None:
    block = end.join(["Received: a", "\tby b", "Received: c", "no header", "Subject : Hi", ""])

    assert mail_fields.header_lines(block) == (
        ("Received", "a\tby b"),
        ("Received", "c"),
        ("Subject", "Hi"),
    )


def test_a_header_that_stands_there_twice_is_not_believed() -> None:
    headers = (("X-Spam", "no"), ("x-spam", "yes"), ("Other", "1"))

    assert mail_fields.only_header(headers, "x-spam") is None
    assert mail_fields.only_header(headers, "other") == "1"
    assert mail_fields.header_of(headers, "x-spam") == "no"


@pytest.mark.parametrize("text", ["SGk=", "SG\r\nk=\r\n", " SGk = "])
def test_a_mail_in_base64_is_decoded_strictly(text: str) -> None:
    assert mail_fields.mime_in_base64(text) == MimeContent(b"Hi")


@pytest.mark.parametrize("text", ["SGk", "SGk=SGk=", "From: bob", "é", "\ud800"])
def test_a_mail_that_only_claims_base64_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        mail_fields.mime_in_base64(text)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("SGk=", b"Hi"),
        ("SGk", b"Hi"),
        ("not base64!", b"not base64!"),
        ("A", b"A"),
        (None, b""),
        ({}, b""),
    ],
)
def test_an_attachment_is_never_lost_over_its_encoding(text: Any, content: bytes) -> None:
    assert mail_fields.content_in_base64(text) == content


def test_words_that_mean_nothing_are_unknown_and_no_word_is_no_check() -> None:
    results = [mail_fields.check_of(word) for word in ("Pass", " softfail ", "GRAY", "", None, 5)]

    assert [one and one.result for one in results] == [
        "pass",
        "softfail",
        "unknown",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("given", "number"),
    [("0.5", 0.5), (5, 5.0), ("nan", None), ("inf", None), (True, None), ("x", None), ({}, None)],
)
def test_numbers_are_finite(given: Any, number: float | None) -> None:
    assert mail_fields.number_of(given) == number


@given(st.text())
def test_any_text_becomes_storable(text: str) -> None:
    given = mail_fields.text_of(text)

    assert given is None or "\x00" not in given
    assert given is None or given.encode()
    mail_fields.mime_of(text)


@pytest.mark.parametrize(
    ("given", "mailboxes"),
    [
        ('"Lee, Ann" <ann@x.net>, bob@x.net', [("ann@x.net", "Lee, Ann"), ("bob@x.net", None)]),
        (["Ann <ann@x.net>", "bob@x.net"], [("ann@x.net", "Ann"), ("bob@x.net", None)]),
        ("=?utf-8?q?J=C3=B6rg?= <j@x.net>", [("j@x.net", "Jörg")]),
        ("undisclosed-recipients:;", []),
        ("nobody", []),
        (None, []),
        (5, []),
    ],
)
def test_mailboxes_are_read_with_their_names(
    given: Any, mailboxes: list[tuple[str, str | None]]
) -> None:
    read = mail_fields.mailboxes_of(given)

    assert [(one.address, one.name) for one in read] == mailboxes


@given(st.text(alphabet='ab@<>(),;:"\\ \x00\ud800é=?'))
def test_any_header_gives_storable_mailboxes(text: str) -> None:
    for one in mail_fields.mailboxes_of(text):
        (one.address + (one.name or "")).encode()
        assert "\x00" not in one.address + (one.name or "")


def test_a_text_is_decoded_by_the_charset_that_was_named_for_it() -> None:
    raw = "Привет".encode("koi8-r")

    assert mail_fields.decoded_text(raw, "KOI8-R") == "Привет"
    assert mail_fields.decoded_text("Grüße".encode(), None) == "Grüße"
    assert mail_fields.decoded_text(b"", "utf-8") is None


def test_a_header_block_without_end_is_read_up_to_the_limit() -> None:
    lines = mail_fields.header_lines("A: 1\n" * (mail_fields.HEADERS_MAX + 5))

    assert lines == (("A", "1"),) * mail_fields.HEADERS_MAX


def test_more_attachments_than_any_mail_has_are_refused() -> None:
    assert mail_fields.files_of([{"a": 1}, 5, None]) == ({"a": 1}, {}, {})
    assert mail_fields.files_of(None) == ()
    with pytest.raises(ParseError):
        mail_fields.files_of([{}] * (mail_fields.FILES_MAX + 1))
