"""SparkPost: pings, batches and what is told twice."""

from dataclasses import replace

import pytest
from msgspec import structs

from mailonce.core.arrivals.provider import Probe
from mailonce.core.events.event import EventType
from tests.providers.cases import arrival_of, find, keys, parse, provider_of, source_of

PROVIDER = provider_of("sparkpost")
SOURCE = source_of("sparkpost")


@pytest.mark.parametrize("body", [b'[{"msys":{}}]', b' [ { "msys" : { } } ]\r\n'])
def test_a_ping_is_answered_unproven(body: bytes) -> None:
    assert PROVIDER.probe(arrival_of(body), SOURCE) == Probe()


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"msys":{}}',
        b'[{"msys":{}},{"msys":{}}]',
        b'[{"msys":{"message_event":{}}}]',
        find("sparkpost", "delivery").body,
        find("sparkpost", "ping_among_events").body,
    ],
)
def test_nothing_else_is_a_ping(body: bytes) -> None:
    assert PROVIDER.probe(arrival_of(body), SOURCE) is None


def test_a_ping_is_posted() -> None:
    arrival = structs.replace(arrival_of(b'[{"msys":{}}]'), method="PUT")

    assert PROVIDER.probe(arrival, SOURCE) is None


def test_a_batch_is_known_by_its_id() -> None:
    case = find("sparkpost", "delivery")

    assert parse("sparkpost", case.body, case.headers).delivery_id == "batch-1"


def test_an_unreadable_element_costs_no_other() -> None:
    element = b'{"msys":{"message_event":{"type":"delivery","event_id":"1"}}}'

    parsed = parse("sparkpost", b"[" + element + b',{broken},"x",' + element + b"]")

    assert len(parsed.events) == 2
    assert [(one.position, one.raw) for one in parsed.unreadable] == [
        (1, b"{broken}"),
        (2, b'"x"'),
    ]


def test_a_first_open_told_twice_is_counted_once() -> None:
    plain, first = (find("sparkpost", name).value[0] for name in ("open", "initial_open"))

    events = parse("sparkpost", [plain, first]).events

    assert [event.type for event in events] == [EventType.OPENED, EventType.OTHER]


def test_an_id_is_the_same_as_number_and_as_text() -> None:
    def body(event_id: int | str) -> list[dict[str, object]]:
        return [{"msys": {"message_event": {"type": "delivery", "event_id": event_id}}}]

    assert keys("sparkpost", body(92356927693813856)) == keys(
        "sparkpost", body("92356927693813856")
    )


def test_an_option_of_another_type_is_named() -> None:
    source = replace(SOURCE, options={"count_first": "yes"})

    assert "'count_first'" in (PROVIDER.check(source) or "")
    assert PROVIDER.check(SOURCE) is None
