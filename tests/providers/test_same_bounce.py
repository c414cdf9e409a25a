"""One hard bounce means the same, whoever tells it.

Each provider that reports bounces has a golden case `bounce_hard…`, in which ann@example.net does
not exist and the sender has attached nothing to the mail. A provider whose case goes by another
name is listed in NAMED.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from mailonce import providers
from mailonce.core.events.event import EventType
from mailonce.core.events.suppression import Cause, SuppressionStatement, statement_of
from tests.providers.cases import Case, all_cases, arrival_of, parse, provider_of, source_of
from tests.providers.showing import show

PREFIX = "bounce_hard"
NAMED: Mapping[str, str] = {"mailtrap": "bounce"}

# Ids, times, the provider's name and the receiving server's words are each one's own.
OWN = {
    "id",
    "key",
    "identity",
    "source",
    "source_name",
    "provider",
    "provider_event_id",
    "message_id",
    "occurred_at",
    "received_at",
    "processed_at",
    "reason",
}
HARD_BOUNCE: Mapping[str, Any] = {
    "type": "bounced",
    "bounce": "hard",
    "recipient": "ann@example.net",
    "tags": [],
    "metadata": {},
    "url": None,
    "user_agent": None,
    "ip": None,
    "machine": None,
    "certain": True,
    "late": False,
    "reject": None,
    "stream": None,
    "copies": 0,
    "recognised_by": [],
    "conflict_with": None,
    "suspect": False,
}


def is_hard_bounce(case: Case) -> bool:
    named = NAMED.get(case.provider)
    return case.name.startswith(PREFIX) if named is None else case.name == named


CASES = [case for case in all_cases() if is_hard_bounce(case)]


@pytest.mark.parametrize(
    "name", [one for one in providers.names() if EventType.BOUNCED in provider_of(one).types]
)
def test_each_provider_that_reports_bounces_tells_a_hard_one(name: str) -> None:
    names = [case.name for case in CASES if case.provider == name]

    assert names, (
        f"{name} lists `bounced` among its types, but has no golden case {PREFIX!r}: add "
        f"golden/{name}/{PREFIX}.json, or name its case in NAMED"
    )


def test_a_hard_bounce_is_shown_alike_whoever_tells_it(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(str(case)):
            source = source_of(case.provider, options=case.options)

            [shown] = show(arrival_of(case.body, case.headers), source)

            assert {name: value for name, value in shown.items() if name not in OWN} == HARD_BOUNCE
            assert shown["message_id"]
            assert shown["occurred_at"]


def test_a_hard_bounce_suppresses_the_address_whoever_tells_it(
    subtests: pytest.Subtests,
) -> None:
    for case in CASES:
        with subtests.test(str(case)):
            [event] = parse(case.provider, case.body, case.headers, **case.options).events

            assert statement_of(event) == SuppressionStatement(
                "ann@example.net", "", Cause.HARD, lifts=False
            )
