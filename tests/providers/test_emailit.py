"""Emailit: bodies before and since Webhooks v2, and elements that cannot be read."""

import json

from mailonce.providers.emailit import PROVIDER
from tests.providers.cases import find, keys, parse, source_of

EVENT = find("emailit", "email_delivered").value[0]


def test_a_single_object_and_an_array_of_one_are_copies() -> None:
    assert keys("emailit", EVENT) == keys("emailit", [EVENT])


def test_an_object_that_changed_between_two_attempts_is_still_the_same_event() -> None:
    about = {**EVENT["data"]["object"], "updated_at": "2026-01-01T09:00:00+00:00", "status": "x"}

    assert keys("emailit", [EVENT]) == keys("emailit", [{**EVENT, "data": {"object": about}}])


def test_an_unreadable_element_costs_no_other() -> None:
    good = json.dumps(EVENT).encode()

    parsed = parse("emailit", b"[" + b",".join([good, b"{broken}", b"5", good]) + b"]")

    assert len(parsed.events) == 2
    assert [(one.position, one.raw) for one in parsed.unreadable] == [(1, b"{broken}"), (2, b"5")]


def test_events_without_an_id_are_told_apart_by_all_they_say() -> None:
    nameless = {name: value for name, value in EVENT.items() if name != "event_id"}

    one, other = keys("emailit", [nameless, {**nameless, "type": "email.bounced"}])

    assert one.key != other.key


def test_an_unknown_option_is_named() -> None:
    source = source_of("emailit", secrets=("s",), options={"held": "x"})

    assert "held" in (PROVIDER.check(source) or "")
    assert PROVIDER.check(source_of("emailit", secrets=("s",))) is None
