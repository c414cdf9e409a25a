"""Fields of a send: what JSON cannot hold is written, and what is wrong is named."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mailonce.client import requests
from mailonce.client.blocking_client import Client
from mailonce.client.send_fields import plain_fields
from mailonce.errors import ParseError

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


def test_bytes_and_base64_are_the_same_attachment() -> None:
    by_bytes = plain_fields({"attachments": [{"name": "a.txt", "content": b"hi"}]})
    by_text = plain_fields({"attachments": ({"name": "a.txt", "content": "aGk="},)})

    assert by_bytes == by_text == {"attachments": [{"name": "a.txt", "content": "aGk="}]}


def test_a_time_is_written_with_its_zone() -> None:
    assert plain_fields({"send_at": NOON}) == {"send_at": "2026-11-17T12:00:00+00:00"}
    assert plain_fields({"send_at": "2026-11-17T12:00:00Z"}) == {"send_at": "2026-11-17T12:00:00Z"}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "names": ({"attachments": ["a.pdf"]}, r"`attachments\[0\]` is a str; give {\"name\""),
    "one": ({"attachments": {"name": "a", "content": b""}}, "`attachments` is a dict; give a list"),
    "no content": ({"attachments": [{"name": "a"}]}, "content` is a NoneType; give bytes"),
    "no base64": ({"attachments": [{"name": "a", "content": "hello!"}]}, "but no base64"),
    "misspelt": ({"subjekt": "News"}, "a mail has no field `subjekt`; use subject, text"),
    "no zone": ({"send_at": NOON.replace(tzinfo=None)}, "`send_at` has no time zone"),
}


def test_what_is_wrong_is_named(subtests: pytest.Subtests) -> None:
    for name, (fields, sentence) in WRONG.items():
        with subtests.test(name), pytest.raises(ParseError, match=sentence):
            plain_fields(fields)  # type: ignore[arg-type]


def test_what_no_json_can_hold_is_refused_with_a_sentence() -> None:
    with pytest.raises(ParseError, match="datetime is not JSON serializable; correct it"):
        requests.post("sends", body={"variables": {"at": NOON}})


@pytest.mark.parametrize("to", [["a@x.example", "b@x.example"], ("a@x.example",), None, b"a@x"])
def test_one_mail_has_one_recipient(to: Any) -> None:
    # Nobody answers there: a request would fail otherwise.
    client = Client("http://127.0.0.1:1", "mok_0", retry_s=0)

    with client, pytest.raises(ParseError, match="several to `send_many`"):
        client.send(to, from_="shop@x.example", subject="News", text="x")


@pytest.mark.parametrize("to", ["a@x.example", {"address": "a@x.example"}, None, 7])
def test_an_address_is_no_list_of_recipients(to: Any) -> None:
    client = Client("http://127.0.0.1:1", "mok_0", retry_s=0)

    with client, pytest.raises(ParseError, match="one address to `send`"):
        client.send_many(to, from_="shop@x.example", subject="News", text="x")


def test_a_key_that_is_no_text_is_named() -> None:
    client = Client("http://127.0.0.1:1", "mok_0", retry_s=0)
    number: Any = 17

    with client, pytest.raises(ParseError, match="`key` is no text but of the type int; give text"):
        client.send("a@x.example", from_="shop@x.example", key=number)
