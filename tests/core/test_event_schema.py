"""Every body that is frozen fits the schema that we publish."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mailonce.core.deliveries.delivery import frozen_body, shown_event
from mailonce.core.deliveries.event_schema import event_schema
from mailonce.core.events.key import keys_of
from mailonce.core.ids import EventId, mint
from tests.providers.cases import (
    SCOPE,
    Case,
    all_cases,
    arrival_of,
    each_provider,
    provider_of,
    source_of,
)

NOW_MS = 1_767_225_700_000
VALIDATOR = Draft202012Validator(event_schema())
PUBLISHED = Path(__file__).parents[2] / "docs/schemas/mailonce.event.1.json"


def test_the_schema_is_one_and_is_what_the_docs_publish() -> None:
    Draft202012Validator.check_schema(event_schema())

    assert json.loads(PUBLISHED.read_text()) == event_schema()


@each_provider(all_cases())
def test_a_frozen_body_of_every_provider_fits(
    cases: Sequence[Case], subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            _assert_bodies_fit(case)


def _assert_bodies_fit(case: Case) -> None:
    provider = provider_of(case.provider)
    source = source_of(case.provider, options=case.options)

    bodies = [
        frozen_body(
            shown_event(
                event,
                id_=EventId(mint(NOW_MS, bytes(10))),
                key=keys_of(SCOPE, event.identity).key,
                source=source.id,
                account=f"{case.provider}/a",
                received_ms=NOW_MS,
                conflict_with=None,
            )
        )
        for event in provider.parse(arrival_of(case.body, case.headers), source).events
    ]

    assert bodies or not case.events
    for body in bodies:
        VALIDATOR.validate(json.loads(body))


@pytest.mark.parametrize(
    "change", [{"type": "bounce"}, {"tags": None}, {"key": "x"}, {"certain": None}, {"schema": ""}]
)
def test_another_body_does_not_fit(change: dict[str, Any]) -> None:
    case = next(case for case in all_cases() if case.provider == "sendgrid")
    source = source_of("sendgrid")
    event = provider_of("sendgrid").parse(arrival_of(case.body, case.headers), source).events[0]
    shown = shown_event(
        event,
        id_=EventId(mint(NOW_MS, bytes(10))),
        key=keys_of(SCOPE, event.identity).key,
        source="s",
        account="sendgrid/a",
        received_ms=NOW_MS,
        conflict_with=None,
    )

    assert VALIDATOR.is_valid(shown)
    assert not VALIDATOR.is_valid({**shown, **change})
