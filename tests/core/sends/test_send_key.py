"""The key of a send: the same for every try of one mail, another for every other mail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.sends.send_key import (
    derived_key,
    given_key,
    key_of_uuid,
    uuid_text,
    work_key,
)
from mailonce.errors import ParseError

parts = st.text(alphabet="ab|%/@ ä", max_size=6)


def test_a_cause_has_one_mail_for_each_template_stream_and_recipient() -> None:
    keys = {
        work_key(workspace, key.recipient_key(recipient))
        for workspace in ("default", "ws_2")
        for key in (
            derived_key(cause_id="order-1", stream="", template="receipt"),
            derived_key(cause_id="order-1", stream="", template="shipped"),
            derived_key(cause_id="order-1", stream="copies", template="receipt"),
            derived_key(cause_id="order-2", stream="", template="receipt"),
            given_key("order-1||receipt"),
        )
        for recipient in ("ann@example.com", "bob@example.com")
    }

    assert len(keys) == 20


def test_the_same_cause_has_the_same_key_each_time() -> None:
    one, two = (
        derived_key(cause_id="order-1", stream="a", template="receipt").recipient_key("ann@x.y")
        for _ in range(2)
    )

    assert work_key("default", one) == work_key("default", two)


@given(st.tuples(parts, parts, parts), st.tuples(parts, parts, parts))
def test_no_two_triples_share_a_derived_key(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    keys = [derived_key(cause_id=c, stream=s, template=t).text for c, s, t in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)


@given(st.tuples(parts.filter(bool), parts), st.tuples(parts.filter(bool), parts))
def test_no_two_pairs_of_key_and_recipient_share_a_key(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    keys = [given_key(key).recipient_key(recipient) for key, recipient in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)


def test_a_request_and_its_recipients_have_keys_of_their_own() -> None:
    key = given_key("k")

    assert key.request_key() != key.recipient_key("ann@example.com")


@pytest.mark.parametrize("text", ["", "x" * 257, "a\nb", "a\x00b", "\ud800"])
def test_what_cannot_be_a_key_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="Idempotency-Key"):
        given_key(text)


def test_a_cause_that_is_too_long_is_refused() -> None:
    with pytest.raises(ParseError, match="cause_id"):
        derived_key(cause_id="x" * 201, stream="", template="t")


def test_a_uuid_that_comes_back_leads_to_the_key() -> None:
    key = work_key("default", "k|ann@example.com")

    assert key_of_uuid(uuid_text(key)) == key
    assert key_of_uuid("no uuid") is None
