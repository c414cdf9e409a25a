import json
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from mailonce.core.mail.digest import MailDigest, digest
from mailonce.core.mail.incoming import (
    Authentication,
    AuthenticationCheck,
    MailEnvelope,
    MimeContent,
    SpamVerdict,
)
from mailonce.core.mail.message import (
    attachment_id_of,
    cleaned_text,
    document,
    message_id_of,
    message_schema,
)
from mailonce.core.text import UNSTORABLE
from tests.core.mail.mails import ENVELOPE, make_mail, make_multipart, read

VALIDATOR = Draft202012Validator(message_schema())
BOUNCE = make_multipart(
    "report; report-type=delivery-status",
    [
        ("Content-Type: text/plain", "failed"),
        ("Content-Type: message/delivery-status", "Action: failed\nFinal-Recipient: rfc822; a@b.c"),
        ("Content-Type: text/calendar", "BEGIN:VCALENDAR\nEND:VCALENDAR"),
    ],
)


def document_of(raw: bytes, **more: Any) -> dict[str, Any]:
    return shown_of(read(raw), **more)


def shown_of(one: MailDigest, **more: Any) -> dict[str, Any]:
    return document(
        one,
        id=message_id_of("default", "inb_1", one.fingerprint),
        inbox="inb_1",
        address="bob@in.example.net",
        seq=1,
        received_ms=1_767_607_200_000,
        **{"envelope": ENVELOPE, **more},
    )


def test_an_id_is_made_of_workspace_inbox_and_content() -> None:
    ids = {
        message_id_of(workspace, inbox, print_)
        for workspace, inbox, print_ in [
            ("a", "b", b"c"), ("ab", "", b"c"), ("a", "b", b"d"), ("a", "c", b"c"), ("b", "b", b"c")
        ]
    }  # fmt: skip

    assert len(ids) == 5
    assert all(id_.startswith("msg_") and len(id_) == 36 for id_ in ids)
    assert message_id_of("a", "b", b"c") in ids


def test_ids_of_equal_attachments_differ_by_their_place() -> None:
    assert attachment_id_of("msg_1", 0, b"x") != attachment_id_of("msg_1", 1, b"x")
    assert attachment_id_of("msg_1", 0, b"x") != attachment_id_of("msg_2", 0, b"x")


def test_who_logged_in_to_the_smtp_door_is_shown() -> None:
    envelope = MailEnvelope(recipients=("ann@in.test",), origin="smtp", user="shop")

    shown = document_of(make_mail(), envelope=envelope)

    VALIDATOR.validate(shown)
    assert shown["envelope"]["user"] == "shop"
    assert document_of(make_mail())["envelope"]["user"] is None


def test_a_document_fits_its_schema() -> None:
    authentication = Authentication(
        spf=AuthenticationCheck(result="pass", domain="example.com"),
        dkim=(AuthenticationCheck(result="fail"),),
    )
    full = document_of(
        BOUNCE,
        authentication=authentication,
        spam=SpamVerdict(is_spam=False, score=0.1),
        raw_bytes=10,
        raw_sha256=bytes(32),
        source={"id": "smtp"},
    )

    for shown in (document_of(b""), document_of(make_mail()), full):
        VALIDATOR.validate(json.loads(json.dumps(shown)))
    assert full["authentication"]["spf"]["result"] == "pass"
    assert full["report"]["recipients"][0]["address"] == "a@b.c"
    assert full["received_at"] == "2026-01-05T10:00:00.000Z"


@pytest.mark.parametrize(
    "raw",
    [
        make_mail("x", "Authentication-Results: mx; spf=pass smtp.mailfrom=\udcff.example"),
        make_mail("x", 'Authentication-Results: mx; dmarc=fail reason="\udcff\x00"'),
        make_mail("x", "X-Failed-Recipients: \udcffa@b.example"),
        make_multipart(
            "report",
            [("Content-Type: message/disposition-notification", "Disposition: a; \udcff\x00b")],
        ),
        make_multipart(
            "report",
            [("Content-Type: message/feedback-report", "Original-Rcpt-To: \udcff@b.example")],
        ),
        make_multipart(
            "report",
            [
                (
                    "Content-Type: message/delivery-status",
                    "Action: \udcff\nFinal-Recipient: \udcff@b",
                )
            ],
        ),
    ],
)
def test_raw_bytes_in_any_field_can_be_stored(raw: bytes) -> None:
    """Each of these could not be written as JSON once."""
    one = digest(MimeContent(raw), ENVELOPE, trusted_servers=("mx",))

    shown = shown_of(one)

    assert UNSTORABLE.search(str(shown)) is None
    assert orjson.loads(orjson.dumps(shown)) == shown


def test_another_document_does_not_fit() -> None:
    shown = document_of(make_mail())

    for change in ({"id": "x"}, {"seq": 0}, {"kind": "letter"}, {"problems": ["bad words"]}):
        assert not VALIDATOR.is_valid({**shown, **change})
    assert not VALIDATOR.is_valid({name: shown[name] for name in shown if name != "from"})


def test_the_envelope_of_a_bounce_is_empty_not_unknown() -> None:
    one = read(b"")
    shown = document(
        one,
        id=message_id_of("default", "inb_1", one.fingerprint),
        inbox="inb_1",
        address="",
        seq=1,
        received_ms=0,
        envelope=MailEnvelope(mail_from="", recipients=(), origin="smtp"),
    )

    assert shown["envelope"]["mail_from"] == ""
    assert shown["from"] is None


def test_a_reader_sees_what_a_person_would_see() -> None:
    html = (
        '<p>Yes.</p><div style="display:none">Ignore all</div><img src="https://t.example/1.gif">'
        "<p>On Mon, 5 Jan 2026 at 10:00, Ann &lt;ann@example.com&gt; wrote:</p><p>No?</p>"
    )
    raw = make_multipart(
        "alternative",
        [("Content-Type: text/plain", "something else"), ("Content-Type: text/html", html)],
    )

    assert cleaned_text(document_of(raw)) == "Yes."
    assert cleaned_text(document_of(make_mail("a\u200bb\u202ec\n> old"))) == "abc"
    assert cleaned_text({"text": None, "html": None}) == ""
