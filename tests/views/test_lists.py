"""Conflicts, dead letters, refusals and counts as users see them."""

from base64 import b64encode
from functools import partial
from typing import Any

import orjson
import pytest

from mailonce.core.access import Caller, Scope
from mailonce.core.events.event import EventType
from mailonce.core.ids import public
from mailonce.core.moment import day_text
from mailonce.core.query import ConflictFilter, CountFilter, DeadLetterFilter
from mailonce.core.signatures.refusal import advice_of
from mailonce.errors import ClashError, MissingError
from mailonce.pipeline.dismiss_dead_letter import dismiss
from mailonce.store.configuration import keys
from mailonce.store.configuration.keys import ApiKey
from mailonce.store.ledger import dead_letters, refusals
from mailonce.store.ledger.refusals import RefusalCount
from mailonce.views.conflicts import list_conflicts
from mailonce.views.dead_letters import list_dead_letters, show_dead_letter
from mailonce.views.events import show_event
from mailonce.views.paging import PageQuery
from mailonce.views.refusals import list_refusals
from mailonce.views.stats import list_stats
from tests.clock import ManualClock
from tests.factories import Ledger, make_body, make_dead, make_entry, make_source, new_id

MAIN = make_source()
OTHER = make_source(id="src_other", name="other", account="other")
OPEN = DeadLetterFilter()


async def add_dead(ledger: Ledger, raw: bytes = b"{") -> bytes:
    dead = make_dead(new_id(ledger.now_ms), "the body is not JSON", raw)
    entry = make_entry(MAIN, raw, now_ms=ledger.now_ms, dead=(dead,), arrival_key="delivery-1")
    await ledger.record(entry)
    return dead.id


async def test_a_conflict_names_the_fields_that_differ_with_both_values(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1)], days_ago=2)
    await ledger.tell(MAIN, [make_body(1, type="opened", recipient="ADA@example.com")])

    page = await list_conflicts(ledger.database, "default", page=PageQuery(10))

    [conflict] = page["data"]
    assert conflict["reason"] == "the same key came with other content"
    assert conflict["source_name"] == "main"
    # The address differs in its case alone, which is the same content.
    assert conflict["differs"] == [{"field": "type", "kept": "delivered", "other": "opened"}]
    holder = await show_event(ledger.database, "default", conflict["event"])
    assert conflict["other_event"] is not None
    other = await show_event(ledger.database, "default", conflict["other_event"])
    assert (other["type"], other["conflict_with"]) == ("opened", conflict["event"])
    counts = await list_stats(ledger.database, "default", CountFilter(), page=PageQuery(10))
    assert [row["count"] for row in counts["data"]] == [1]
    assert holder["key"] == conflict["key"]
    assert holder["type"] == "delivered"


async def test_a_conflict_whose_body_cannot_be_read_again_differs_in_nothing_known(
    ledger: Ledger,
) -> None:
    await ledger.tell(MAIN, [make_body(1), make_body(1, type="opened")])

    page = await list_conflicts(ledger.database, "default", page=PageQuery(10))

    assert [one["differs"] for one in page["data"]] == [[]]


async def test_a_conflict_that_nothing_signs_has_no_event_of_its_own(ledger: Ledger) -> None:
    bodies = [make_body(1), make_body(1, type="opened")]
    await ledger.tell(MAIN, bodies, signs_body=False)

    page = await list_conflicts(ledger.database, "default", page=PageQuery(10))

    assert [one["other_event"] for one in page["data"]] == [None]


async def test_conflicts_page_and_filter_by_source(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    for number in range(5):
        await ledger.tell(MAIN, [make_body(number), make_body(number, type="opened")])
    await ledger.tell(OTHER, [make_body(1), make_body(1, type="opened")])

    ids: list[str] = []
    cursor = None
    while True:
        page = await list_conflicts(
            ledger.database,
            "default",
            page=PageQuery(2, cursor),
            query=ConflictFilter(source="main"),
        )
        ids += [one["id"] for one in page["data"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert len(ids) == len(set(ids)) == 5
    assert ids == sorted(ids, reverse=True)


async def test_a_dead_letter_has_the_fields_of_the_contract(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await add_dead(ledger)

    page = await list_dead_letters(ledger.database, "default", OPEN, page=PageQuery(10))

    [letter] = page["data"]
    assert letter["id"].startswith("dead_")
    assert {name: value for name, value in letter.items() if name not in {"id", "failed_at"}} == {
        "kind": "arrival",
        "key": "delivery-1",
        "source": "src_main",
        "source_name": "main",
        "route": None,
        "delivery": None,
        "recipient": None,
        "delivered_at": None,
        "reason": "the body is not JSON",
        "status": None,
        "last_error": "the body is not JSON",
        "attempts": 1,
        "resolved_at": None,
        "resolution": None,
        "dismissed_by": None,
        "dismissed_by_name": None,
        "dismissed_because": None,
        "raw": "{",
        "raw_bytes": 1,
    }
    assert await show_dead_letter(ledger.database, "default", letter["id"]) == letter


async def test_bytes_that_are_no_text_are_shown_as_base64(ledger: Ledger) -> None:
    await add_dead(ledger, b"\xff\x00")

    page = await list_dead_letters(ledger.database, "default", OPEN, page=PageQuery(10))

    assert page["data"][0]["raw"] is None
    assert page["data"][0]["raw_base64"] == b64encode(b"\xff\x00").decode()


async def test_a_resolved_dead_letter_leaves_the_open_list(ledger: Ledger) -> None:
    resolved, _ = await add_dead(ledger), await add_dead(ledger, b"[")

    await ledger.database.write(
        lambda tx: dead_letters.resolve(tx, "default", resolved, now_ms=ledger.now_ms)
    )

    for query in (OPEN, DeadLetterFilter(resolved=True)):
        page = await list_dead_letters(ledger.database, "default", query, page=PageQuery(10))
        assert [one["resolved_at"] is not None for one in page["data"]] == [query.resolved]


async def test_who_dismissed_a_dead_letter_is_kept_beside_its_last_error(ledger: Ledger) -> None:
    id_ = await add_dead(ledger)
    bob = ApiKey(
        id="key_1",
        workspace="default",
        name="bob2",
        scope=Scope.OPERATOR,
        digest=b"d",
        created_ms=1,
    )
    await ledger.database.write(lambda tx: keys.put(tx, bob))
    await ledger.database.write(lambda tx: keys.revoke(tx, "key_1", now_ms=2))
    caller = Caller("default", Scope.OPERATOR, "key_1")

    async def say(reason: str) -> None:
        clock, letter = ManualClock(ledger.now_ms), public("dead", id_)
        await dismiss(ledger.database, clock, caller, letter, reason=reason)

    for reason in ("", "fixed by hand", "fixed by hand", ""):
        await say(reason)
    with pytest.raises(ClashError, match=r"dismissed \(fixed by hand\), at .* is not kept$"):
        await say("another")

    [letter] = (
        await list_dead_letters(
            ledger.database, "default", DeadLetterFilter(resolved=True), page=PageQuery(10)
        )
    )["data"]
    assert letter["last_error"] == "the body is not JSON"
    assert letter["dismissed_by"] == "key_1"
    assert letter["dismissed_by_name"] == "bob2"
    assert letter["dismissed_because"] == "fixed by hand"


async def test_dead_letters_page_without_gaps(ledger: Ledger) -> None:
    for number in range(5):
        await add_dead(ledger, b"{" * (number + 1))

    ids: list[str] = []
    cursor = None
    while True:
        page = await list_dead_letters(ledger.database, "default", OPEN, page=PageQuery(2, cursor))
        ids += [one["id"] for one in page["data"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert len(ids) == len(set(ids)) == 5


def make_refusal(**changes: object) -> RefusalCount:
    fields: dict[str, object] = {
        "workspace": "default",
        "source": "src_main",
        "reason": "wrong signature",
        "minute": 29_000_000,
        "process": b"one",
        "count": 1,
        "body_bytes": 3,
        "headers": orjson.dumps({"user-agent": "curl"}),
        "sample": b"abc",
        "peer": "192.0.2.7",
    }
    return RefusalCount(**(fields | changes))  # type: ignore[arg-type]


async def test_refusals_are_counted_with_the_first_sample(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    for sample in (b"first", b"second"):
        refusal = make_refusal(count=2, sample=sample)
        await ledger.database.write(partial(refusals.add_all, refusals=[refusal]))

    page = await list_refusals(ledger.database, "default", page=PageQuery(10))

    assert page["data"] == [
        {
            "source": "src_main",
            "source_name": "main",
            "reason": "wrong signature",
            "status": 401,
            "retried": True,
            "advice": advice_of("wrong signature", "main"),
            "minute": "2025-02-19T21:20:00.000Z",
            "count": 4,
            "body_bytes": 3,
            "peer": "192.0.2.7",
            "path": None,
            "headers": {"user-agent": "curl"},
            "sample": "first",
        }
    ]


async def test_refusals_page_newest_minute_first(ledger: Ledger) -> None:
    some = [
        make_refusal(minute=minute, reason=reason, process=process)
        for minute in (1, 2, 3)
        for reason in ("stale timestamp", "wrong signature")
        for process in (b"one", b"two")
    ]
    await ledger.database.write(lambda tx: refusals.add_all(tx, some))

    pairs: list[tuple[str, str]] = []
    cursor = None
    while True:
        page = await list_refusals(
            ledger.database, "default", source="src_main", page=PageQuery(5, cursor)
        )
        pairs += [(one["minute"], one["reason"]) for one in page["data"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert len(pairs) == 12
    assert pairs == sorted(pairs, reverse=True)


async def test_counts_are_summed_by_day_source_and_type(ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1), make_body(2)], days_ago=1)
    await ledger.tell(MAIN, [make_body(3), make_body(1), make_body(4, type="opened")])
    await ledger.tell(MAIN, [make_body(5)])
    today = ledger.now_ms // 86_400_000

    page = await list_stats(ledger.database, "default", CountFilter(), page=PageQuery(10))

    assert [(row["day"], row["type"], row["count"]) for row in page["data"]] == [
        (day_text(today), "delivered", 2),
        (day_text(today), "opened", 1),
        (day_text(today - 1), "delivered", 2),
    ]
    assert page["data"][0]["source_name"] == "main"


async def test_counts_page_and_filter(ledger: Ledger) -> None:
    words = ("accepted", "sent", "delivered", "opened")
    for days_ago in (0, 1, 2):
        for source in (MAIN, OTHER):
            bodies = [make_body(f"{days_ago}-{word}", type=word) for word in words]
            await ledger.tell(source, bodies, days_ago=days_ago)
    today = ledger.now_ms // 86_400_000

    async def count(query: CountFilter, limit: int) -> int:
        rows: list[tuple[str, str, str]] = []
        cursor = None
        while True:
            page = await list_stats(
                ledger.database, "default", query, page=PageQuery(limit, cursor)
            )
            rows += [(row["day"], row["source"], row["type"]) for row in page["data"]]
            cursor = page["next"]
            if cursor is None:
                assert len(rows) == len(set(rows))
                return len(rows)

    assert await count(CountFilter(), 5) == await count(CountFilter(), 24) == 24
    assert await count(CountFilter(source="src_other"), 5) == 12
    assert await count(CountFilter(type=EventType.SENT), 5) == 6
    assert await count(CountFilter(since_day=today), 5) == 8
    assert await count(CountFilter(until_day=today), 5) == 16


async def test_lists_have_a_beginning_and_an_end(ledger: Ledger) -> None:
    now_ms, database = ledger.now_ms, ledger.database
    await ledger.tell(MAIN, [make_body(1), make_body(1, type="opened")])
    await add_dead(ledger)
    minute = now_ms // 60_000
    await database.write(lambda tx: refusals.add_all(tx, [make_refusal(minute=minute)]))

    async def found(since_ms: int | None, until_ms: int | None) -> list[int]:
        times: dict[str, Any] = {"since_ms": since_ms, "until_ms": until_ms}
        page = PageQuery(10)
        pages: list[Any] = [
            await list_conflicts(database, "default", page, ConflictFilter(**times)),
            await list_dead_letters(database, "default", DeadLetterFilter(**times), page),
            await list_refusals(database, "default", page, **times),
        ]
        return [len(one["data"]) for one in pages]

    assert await found(now_ms, None) == [1, 1, 1]
    assert await found(None, now_ms + 1) == [1, 1, 1]
    assert await found(None, minute * 60_000) == [0, 0, 0]
    assert await found(now_ms + 60_000, None) == [0, 0, 0]


async def test_another_workspace_sees_none_of_it(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1), make_body(1, type="opened")])
    letter = await add_dead(ledger)
    await ledger.database.write(lambda tx: refusals.add_all(tx, [make_refusal()]))
    database = ledger.database

    pages: list[object] = [
        await list_conflicts(database, "other", page=PageQuery(10)),
        await list_dead_letters(database, "other", OPEN, page=PageQuery(10)),
        await list_refusals(database, "other", page=PageQuery(10)),
        await list_stats(database, "other", CountFilter(), page=PageQuery(10)),
    ]
    resolved = await database.write(
        lambda tx: dead_letters.resolve(tx, "other", letter, now_ms=ledger.now_ms)
    )

    assert pages == [{"data": [], "next": None}] * 4
    assert not resolved
    mine = await list_dead_letters(database, "default", OPEN, page=PageQuery(10))
    with pytest.raises(MissingError):
        await show_dead_letter(database, "other", mine["data"][0]["id"])
