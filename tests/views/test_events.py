"""The log as users see it."""

from datetime import UTC, datetime

import orjson
import pytest

from mailonce.core.events.event import EventType
from mailonce.core.query import EventFilter
from mailonce.errors import MissingError, ParseError
from mailonce.views.events import EventJson, list_events, show_event
from mailonce.views.paging import PageQuery
from tests.factories import Ledger, make_body, make_entry, make_source

ALL = EventFilter()
MAIN = make_source()
DAY_MS = 86_400_000


async def read_all(
    ledger: Ledger, query: EventFilter = ALL, *, limit: int, workspace: str = "default"
) -> list[list[EventJson]]:
    pages: list[list[EventJson]] = []
    cursor = None
    while True:
        page = await list_events(ledger.database, workspace, query, page=PageQuery(limit, cursor))
        pages.append(page["data"])
        cursor = page["next"]
        if cursor is None:
            return pages


async def test_pages_neither_skip_nor_repeat_across_days(ledger: Ledger) -> None:
    for days_ago in (9, 2, 1, 0):
        await ledger.tell(MAIN, [make_body(f"{days_ago}-{n}") for n in range(7)], days_ago=days_ago)

    for limit in (1, 3, 7, 10, 28, 100):
        pages = await read_all(ledger, limit=limit)

        ids = [event["id"] for page in pages for event in page]
        assert len(ids) == len(set(ids)) == 28
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        times = [event["received_at"] for page in pages for event in page]
        assert times == sorted(times, reverse=True)


async def test_events_that_come_while_paging_do_not_shift_the_pages(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(n) for n in range(10)])
    first = await list_events(ledger.database, "default", ALL, page=PageQuery(5))

    await ledger.tell(MAIN, [make_body(n) for n in range(10, 20)])
    second = await list_events(ledger.database, "default", ALL, page=PageQuery(5, first["next"]))

    raw = [
        (await show_event(ledger.database, "default", event["id"]))["raw"]["id"]
        for event in [*first["data"], *second["data"]]
    ]
    assert raw == [f"evt-{n}" for n in range(9, -1, -1)]
    assert second["next"] is None


async def test_a_row_whose_batch_was_stamped_before_midnight_is_listed_and_found(
    ledger: Ledger,
) -> None:
    midnight = ledger.now_ms // DAY_MS * DAY_MS
    early = make_entry(MAIN, make_body("early"), now_ms=midnight + 5)
    late = make_entry(MAIN, make_body("late"), now_ms=midnight - 5)
    await ledger.record(early, received_ms=midnight - 1)
    await ledger.record(late, received_ms=midnight + 1)

    pages = await read_all(ledger, limit=1)

    assert [len(page) for page in pages] == [1, 1]
    for [event] in pages:
        assert (await show_event(ledger.database, "default", event["id"]))["id"] == event["id"]


async def test_filters_narrow_by_each_field_and_together(ledger: Ledger) -> None:
    other = make_source(id="src_other", name="other", account="other")
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1, type="bounced", bounce_type="hard", message_id="m-9")])
    await ledger.tell(MAIN, [make_body(2, recipient="Bob@Example.com")])
    await ledger.tell(other, [make_body(3)], days_ago=3)
    since = ledger.now_ms - DAY_MS

    async def count(**fields: object) -> int:
        query = EventFilter(**fields)  # type: ignore[arg-type]
        return sum(len(page) for page in await read_all(ledger, query, limit=1))

    assert await count() == 3
    assert await count(source="src_main") == await count(source="main") == 2
    assert await count(source="src_other") == 1
    assert await count(source="smtp") == 0
    with pytest.raises(MissingError, match="no source 'nobody'"):
        await count(source="nobody")
    assert await count(type=EventType.BOUNCED) == 1
    assert await count(message_id="m-9") == 1
    assert await count(message_id="m-9", type=EventType.DELIVERED) == 0
    assert await count(recipient="bob@example.com") == 1
    assert await count(since_ms=since) == 2
    assert await count(until_ms=since) == 1
    assert await count(since_ms=ledger.now_ms, until_ms=ledger.now_ms) == 0
    assert await count(recipient="ada@example.com", until_ms=since) == 1


async def test_indexed_filters_page_without_gaps_either(ledger: Ledger) -> None:
    for days_ago in (2, 0):
        bodies = [make_body(f"{days_ago}-{n}", message_id="shared") for n in range(5)]
        await ledger.tell(MAIN, bodies, days_ago=days_ago)

    pages = await read_all(ledger, EventFilter(message_id="shared"), limit=3)

    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert len({event["id"] for page in pages for event in page}) == 10


async def test_an_event_tells_its_copies_and_what_they_were_recognised_by(ledger: Ledger) -> None:
    def envelope(event_id: str) -> bytes:
        detail = {
            "messageId": "m-1",
            "recipients": ["ada@example.com"],
            "eventTimestamp": "2026-01-01T00:00:00Z",
            "eventId": event_id,
        }
        return orjson.dumps({"event_type": "open", "payload": detail})

    await ledger.tell(MAIN, [envelope("e-1")], days_ago=1)
    await ledger.tell(MAIN, [envelope("e-1")] * 2)
    await ledger.tell(MAIN, [envelope("e-2")])

    [[event]] = await read_all(ledger, limit=10)

    assert event["copies"] == 3
    assert event["recognised_by"] == ["content", "key"]


async def test_an_event_has_the_fields_of_the_contract(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    body = make_body(
        1, type="clicked", url="https://example.com", tags=["a"], metadata={"k": "v"}, ip="::1"
    )
    await ledger.tell(MAIN, [body])
    [[listed]] = await read_all(ledger, limit=1)

    shown = await show_event(ledger.database, "default", listed["id"])

    assert shown["raw"] == orjson.loads(body)
    assert "raw" not in listed
    assert {name: shown[name] for name in listed} == listed  # type: ignore[literal-required]
    received = datetime.fromtimestamp(ledger.now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    assert listed | {"id": "", "key": "", "identity": ""} == {
        "id": "",
        "key": "",
        "identity": "",
        "source": "src_main",
        "source_name": "main",
        "provider": "sesmetric",
        "provider_event_id": "evt-1",
        "type": "clicked",
        "bounce": None,
        "reject": None,
        "message_id": "m-1",
        "recipient": "ada@example.com",
        "occurred_at": "2026-01-01T00:00:00.000Z",
        "received_at": received.replace("+00:00", "Z"),
        "processed_at": received.replace("+00:00", "Z"),
        "reason": None,
        "stream": None,
        "tags": ["a"],
        "metadata": {"k": "v"},
        "url": "https://example.com",
        "user_agent": None,
        "ip": "::1",
        "machine": None,
        "late": False,
        "certain": True,
        "copies": 0,
        "recognised_by": [],
        "conflict_with": None,
        "suspect": False,
    }
    assert len(listed["key"]) == 32
    assert listed["identity"] == listed["key"]


async def test_a_list_shows_raw_elements_on_request(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1), make_body(2)])

    page = await list_events(ledger.database, "default", ALL, page=PageQuery(10), raw=True)

    assert [event["raw"]["id"] for event in page["data"]] == ["evt-2", "evt-1"]


async def test_raw_is_the_body_as_text_where_the_source_is_gone(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1)])
    [[listed]] = await read_all(ledger, limit=1)

    shown = await show_event(ledger.database, "default", listed["id"])

    assert shown["raw"] == make_body(1).decode()
    assert shown["source_name"] is None
    assert shown["provider"] == "sesmetric"


async def test_raw_can_be_written_even_where_a_provider_sent_half_a_character(
    ledger: Ledger,
) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1, note="x").replace(b'"x"', rb'"\ud800"')])
    [[listed]] = await read_all(ledger, limit=1)

    shown = await show_event(ledger.database, "default", listed["id"])

    assert shown["raw"]["note"] == "?"


async def test_a_time_far_ahead_is_shown_as_suspect(ledger: Ledger) -> None:
    ahead = ledger.now_ms // 1000 + 2 * 86_400
    await ledger.tell(MAIN, [make_body(1, timestamp=ahead), make_body(2, timestamp=None)])

    [[second, first]] = await read_all(ledger, limit=10)

    assert first["suspect"]
    assert not second["suspect"]
    assert second["occurred_at"] is None


async def test_another_workspace_sees_and_finds_nothing(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1)])
    [[event]] = await read_all(ledger, limit=1)

    pages = await read_all(ledger, limit=1, workspace="other")
    by_message = await read_all(ledger, EventFilter(message_id="m-1"), limit=1, workspace="other")

    assert pages == by_message == [[]]
    with pytest.raises(MissingError):
        await show_event(ledger.database, "other", event["id"])


@pytest.mark.parametrize("cursor", ["x", "!!", "W10", "WzEsMl0", "ImEi", "WyJhIiwiMDAiXQ", "ä"])
async def test_a_cursor_that_no_page_gave_is_refused_with_the_way_out(
    ledger: Ledger, cursor: str
) -> None:
    with pytest.raises(ParseError, match="leave it out"):
        await list_events(ledger.database, "default", ALL, page=PageQuery(10, cursor))


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_bounds_is_refused_with_the_bounds(ledger: Ledger, limit: int) -> None:
    with pytest.raises(ParseError, match="1 to 1000"):
        await list_events(ledger.database, "default", ALL, page=PageQuery(limit))
