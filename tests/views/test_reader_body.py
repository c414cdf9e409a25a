"""What a reader's key sees of the body of a delivery."""

import orjson

from mailonce.core.access import Caller, Scope
from mailonce.views.reader_body import body_for_reader, is_limited


def test_a_mail_in_a_body_is_the_readers_view_of_it() -> None:
    message = {
        "id": "msg_1", "html": "<i title=hidden>Hello</i>", "headers": [["X", "hidden"]],
        "text": "Hello",
        "attachments": [{"id": "att_1", "name": "a", "type": "b", "bytes": 1, "sha256": "c",
                         "url": "https://example.com/hidden", "content": "aGlkZGVu"}],
    }  # fmt: skip
    body = orjson.dumps({"schema": "mailonce.event/1", "type": "inbound", "message": message})

    shown = body_for_reader(body)

    assert shown is not None
    assert b"hidden" not in shown
    assert b"aGlkZGVu" not in shown
    assert orjson.loads(shown)["message"]["text"].strip() == "Hello"


def test_other_events_are_shown_as_they_were_sent() -> None:
    body = b'{"schema":"mailonce.event/1", "type":"bounced", "message":null}'

    assert body_for_reader(body) == body


def test_what_a_mapping_made_is_not_shown() -> None:
    bodies = (b'{"words": "<b>hidden</b>"}', b'["hidden"]', b"hidden", b"\xff")

    assert [body_for_reader(body) for body in bodies] == [None] * 4


def test_readers_alone_are_limited() -> None:
    assert [is_limited(Caller("default", scope)) for scope in (Scope.READER, Scope.OPERATOR)] == [
        True,
        False,
    ]
