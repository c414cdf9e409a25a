"""What each provider's words mean in ours, case by case."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import fields

from mailonce import providers
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import WHOLE, Identity
from tests.providers.cases import (
    Case,
    all_cases,
    arrival_of,
    each_provider,
    find,
    parse,
    provider_of,
    source_of,
)

CASES = all_cases()
_PLAIN = Event(type=EventType.OTHER, identity=Identity(WHOLE, {}))
_NOT_COMPARED = {"type", "identity", "raw", "occurred_ms"}


@each_provider(CASES)
def test_a_body_means_what_its_golden_case_says(
    cases: Sequence[Case], subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            parsed = parse(case.provider, case.body, case.headers, **case.options)

            actual, expected = map(_said, parsed.events), map(_expected, case.events)
            assert list(actual) == list(expected)
            assert parsed.unreadable == ()


# A provider without types is one whose operators bring their own words.
@pytest.mark.parametrize("name", [one for one in providers.names() if provider_of(one).types])
def test_a_provider_says_all_its_types_and_no_other(name: str) -> None:
    types = {event["type"] for case in CASES if case.provider == name for event in case.events}

    declared = set(provider_of(name).types)

    assert types | {"other"} == declared | {"other"}


def test_a_trace_id_is_the_id_of_a_postmark_delivery() -> None:
    case = find("postmark", "delivery")

    parsed = provider_of("postmark").parse(
        arrival_of(case.body, case.headers), source_of("postmark")
    )

    assert parsed.delivery_id == "trace-1"


def _said(event: Event) -> dict[str, Any]:
    """List what differs from an event that says nothing."""
    shown: dict[str, Any] = {"type": event.type.value, "occurred_ms": event.occurred_ms}
    for field in fields(Event):
        value = getattr(event, field.name)
        if field.name not in _NOT_COMPARED and value != getattr(_PLAIN, field.name):
            shown[field.name] = list(value) if isinstance(value, tuple) else value
    return shown


def _expected(golden: dict[str, Any]) -> dict[str, Any]:
    occurred_at = golden.get("occurred_at")
    occurred_ms = None
    if occurred_at is not None:
        occurred_ms = round(datetime.fromisoformat(occurred_at).timestamp() * 1000)
    rest = {name: value for name, value in golden.items() if name != "occurred_at"}
    return {**rest, "occurred_ms": occurred_ms}
