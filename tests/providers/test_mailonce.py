"""One mailonce behind another: what the first shows, the second takes over as it is."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.errors import ParseError
from mailonce.pipeline.parse import entry_of
from tests.factories import Ledger, new_id
from tests.providers.cases import (
    Case,
    all_cases,
    arrival_of,
    each_provider,
    find,
    keys,
    provider_of,
    source_of,
)
from tests.providers.cases import parse as parse_case
from tests.providers.showing import show
from tests.providers.signing import attach_standard, standard_secret

PROVIDER = provider_of("mailonce")
SOURCE = source_of("mailonce", secrets=(standard_secret("old"),))
# Each installation names, times and counts for itself.
OWN = {"id", "key", "identity", "source", "source_name", "provider", "received_at", "processed_at"}


@each_provider(case for case in all_cases() if case.provider != "mailonce")
def test_an_event_that_passes_through_stays_the_same(
    cases: Sequence[Case], subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            source = source_of(case.provider, options=case.options)

            for sent in show(arrival_of(case.body, case.headers), source):
                body = json.dumps({"schema": "mailonce.event/1", **sent}).encode()
                [taken] = show(attach_standard(body, "1767225600", ""), SOURCE)

                assert _shared(dict(taken)) == _shared(dict(sent))


def _shared(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name not in OWN}


def test_each_delivery_is_an_event_of_its_own() -> None:
    case = find("mailonce", "opened")
    value = {**case.value, "identity": None}
    another = {**case.headers, "webhook-id": "another"}

    [one], [other] = (keys("mailonce", value, headers) for headers in (case.headers, another))

    assert one.key != other.key


def test_the_signed_id_counts_before_the_one_that_is_not() -> None:
    case = find("mailonce", "opened")
    forged = {**case.headers, "x-idempotency-key": "forged"}

    assert keys("mailonce", case.value, forged) == keys("mailonce", case.value, case.headers)


def test_the_idempotency_key_alone_names_the_same_delivery() -> None:
    case = find("mailonce", "opened")
    alone = {"X-Idempotency-Key": case.headers["x-idempotency-key"]}

    assert keys("mailonce", case.value, alone) == keys("mailonce", case.value, case.headers)


@pytest.mark.parametrize("schema", ["mailonce.event/2", "mailonce.message/1", None, 5])
def test_another_schema_is_left_for_a_newer_version_to_read(schema: Any) -> None:
    body = json.dumps({**find("mailonce", "opened").value, "schema": schema}).encode()

    with pytest.raises(ParseError, match="another version"):
        PROVIDER.parse(arrival_of(body), SOURCE)


async def test_two_routes_that_lead_here_bring_one_event(ledger: Ledger) -> None:
    case = find("mailonce", "bounce_hard")

    def entry(delivery: str) -> Entry:
        arrival = attach_standard(case.body, "1767225600", "", id_=delivery)
        parsed = PROVIDER.parse(arrival, SOURCE)
        return entry_of(PROVIDER, SOURCE, arrival, parsed, new_id=partial(new_id, ledger.now_ms))

    answers = [(await ledger.record(entry(one)))[0] for one in ("route-1", "route-2", "route-2")]

    assert answers == [
        ArrivalOutcome(Status.ACCEPTED, events=1, new=1),
        ArrivalOutcome(Status.DUPLICATE, events=1, new=0),
        ArrivalOutcome(Status.DUPLICATE, events=1, new=0),
    ]


def test_the_body_stays_whole_as_raw() -> None:
    case = find("mailonce", "inbound")

    [event] = parse_case("mailonce", case.value, case.headers).events

    assert event.raw == case.value


def test_a_source_needs_a_secret_or_a_public_key() -> None:
    assert PROVIDER.check(SOURCE) is None
    assert "'secret'" in (PROVIDER.check(source_of("mailonce")) or "")
    assert "'secret'" in (PROVIDER.check(source_of("mailonce", secrets=("no base64!",))) or "")
    assert "'public_key'" in (PROVIDER.check(source_of("mailonce", public_keys=("x",))) or "")
