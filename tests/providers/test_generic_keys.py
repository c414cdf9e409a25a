"""Generic sources without an event id: by what their copies are known."""

from typing import Any

import pytest

from mailonce.core.events.key import WHOLE, EventKeys, Identity, keys_of
from tests.providers.cases import SCOPE, keys, provider_of, source_of

EVENT = {
    "message_id": "m1",
    "type": "open",
    "recipient": "ann@example.net",
    "occurred_at": "2026-01-01T00:00:05Z",
}


def key(event: dict[str, Any], **options: Any) -> EventKeys:
    [event_keys] = keys("hmac", event, header="X-Signature", **options)
    return event_keys


@pytest.mark.parametrize(
    "changed",
    [{"attempt": 2}, {"geo": {"country": "AT"}}, {"recipient": "Ann@Example.net"}],
    ids=str,
)
def test_a_copy_with_another_field_is_a_copy(changed: dict[str, Any]) -> None:
    one, other = key(EVENT), key({**EVENT, **changed})

    assert (one.key, one.fingerprint) == (other.key, other.fingerprint)


@pytest.mark.parametrize(
    "changed",
    [
        {"message_id": "m2"},
        {"type": "click"},
        {"occurred_at": "2026-01-01T00:00:06Z"},
        {"recipient": "bob@example.net"},
        {"url": "https://example.com/b"},
    ],
    ids=str,
)
def test_another_event_has_another_key(changed: dict[str, Any]) -> None:
    assert key(EVENT).key != key({**EVENT, **changed}).key


@pytest.mark.parametrize("missing", ["message_id", "type", "occurred_at"])
def test_without_what_tells_events_apart_all_of_it_is_the_key(missing: str) -> None:
    event = {name: value for name, value in EVENT.items() if name != missing}

    assert key(event).key != key({**event, "attempt": 2}).key


def test_a_retry_is_known_by_the_key_that_an_older_version_claimed() -> None:
    claimed = keys_of(SCOPE, Identity(WHOLE, EVENT))

    known = key(EVENT)

    assert known.previous is not None
    alias = known.previous.alias
    assert (alias.key, alias.fingerprint) == (claimed.key, claimed.fingerprint)


OPTIONS: dict[str, Any] = {"key": ["message_id", "type", "/detail/attempt"]}


class TestOwnComposite:
    """The option `key` lists what tells events apart: names of options, or pointers."""

    def test_what_it_names_tells_apart(self) -> None:
        one, same, other = (
            key({**EVENT, "detail": detail}, **OPTIONS)
            for detail in ({"attempt": 1}, {"attempt": 1, "host": "b"}, {"attempt": 2})
        )

        assert (one.key, one.fingerprint) == (same.key, same.fingerprint)
        assert one.key != other.key

    def test_other_content_under_it_is_noticed(self) -> None:
        one, other = (
            key({**EVENT, "recipient": address}, **OPTIONS)
            for address in ("ann@example.net", "bob@example.net")
        )

        assert one.key == other.key
        assert one.fingerprint != other.fingerprint

    def test_where_it_leads_nowhere_all_of_the_event_is_the_key(self) -> None:
        one, other = (key({**EVENT, "n": n}, key=["/nowhere"]) for n in (1, 2))

        assert one.key != other.key

    def test_an_event_id_goes_first(self) -> None:
        one, other = (
            key({**EVENT, "id": "e1", "n": n}, event_id="/id", key=["/n"]) for n in (1, 2)
        )

        assert one.key == other.key

    @pytest.mark.parametrize("wrong", ["message_id", [], ["colour"], [7], {"a": 1}], ids=str)
    def test_what_cannot_work_is_said_at_once(self, wrong: Any) -> None:
        source = source_of("hmac", secrets=("s",), options={"header": "X-S", "key": wrong})

        assert "option 'key'" in (provider_of("hmac").check(source) or "")
