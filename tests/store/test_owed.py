"""Seen, changed and owed become true together: deliveries are made by the recording transaction."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection, select

from mailonce.clock import Clock
from mailonce.core.deliveries.delivery import key_of
from mailonce.core.deliveries.route import Route
from mailonce.core.ledger.entry import Entry
from mailonce.core.work.states import State
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.configuration import version
from mailonce.store.dialects.contract import Batch, OutdatedError, Routing
from mailonce.store.schema.tables import DELIVERIES, EVENTS
from mailonce.telemetry import Metrics
from tests.factories import Ledger, make_body, make_entry, make_source, new_id


def make_route(name: str = "crm", **changes: Any) -> Route:
    fields: dict[str, Any] = {"id": f"rte_{name}", "workspace": "default", "name": name}
    return Route(**(fields | {"url": "https://example.com/hook"} | changes))


async def routing_of(ledger: Ledger, *routes: Route) -> Routing:
    return Routing((await ledger.database.head()).configuration, {"default": routes})


async def batch_of(ledger: Ledger, entries: Sequence[Entry], *routes: Route) -> Batch:
    routing = await routing_of(ledger, *routes)
    return Batch(new_id(ledger.now_ms), list(entries), routing=routing)


def rows_of(tx: Connection) -> list[dict[str, Any]]:
    query = select(DELIVERIES, EVENTS.c.key.label("identity"), EVENTS.c.body.label("frozen"))
    joined = query.join(EVENTS, EVENTS.c.id == DELIVERIES.c.event).order_by(DELIVERIES.c.route)
    return [dict(row) for row in tx.execute(joined).mappings()]


async def test_an_event_is_owed_once_to_each_route_that_takes_it(ledger: Ledger) -> None:
    body = make_body(1, type="bounced", bounce_type="hard")
    entries = [make_entry(make_source(), body, now_ms=ledger.now_ms) for _ in range(3)]
    routes = [make_route("all"), make_route("bounces", events=("bounced",)),
              make_route("opens", events=("opened",))]  # fmt: skip
    batch = await batch_of(ledger, entries, *routes)

    await ledger.database.record(batch)
    again = await batch_of(ledger, [make_entry(make_source(), body, now_ms=ledger.now_ms)], *routes)
    await ledger.database.record(again)

    rows = await ledger.database.read(rows_of)
    assert set(batch.owed) == {"rte_all", "rte_bounces"}
    assert not again.owed
    assert [row["route"] for row in rows] == ["rte_all", "rte_bounces"]
    for row in rows:
        assert row["key"] == key_of(bytes(row["identity"]).hex(), row["route"])
        assert (row["state"], row["attempts"], row["token"]) == (State.DUE, 0, 0)
        assert row["due_ms"] == row["made_ms"]
    # The first route's bytes are in the event's row; each names its own route.
    assert [row["body"] is None for row in rows] == [True, False]
    assert orjson.loads(bytes(rows[1]["body"]))["route_id"] == "rte_bounces"
    shown = orjson.loads(bytes(rows[0]["frozen"]))
    assert (shown["schema"], shown["route_id"]) == ("mailonce.event/1", "rte_all")
    assert shown["identity"] == bytes(rows[0]["identity"]).hex()
    assert (shown["type"], shown["bounce"], shown["recipient"]) == (
        "bounced",
        "hard",
        "ada@example.com",
    )


async def test_a_mapped_route_has_a_body_of_its_own(ledger: Ledger) -> None:
    entry = make_entry(make_source(), make_body(1), now_ms=ledger.now_ms)
    route = make_route(mapping={"who": "$.recipient", "money": "$$5", "is": ["$.type", 7]})

    await ledger.database.record(await batch_of(ledger, [entry], route))

    (row,) = await ledger.database.read(rows_of)
    assert orjson.loads(bytes(row["body"])) == {
        "who": "ada@example.com",
        "money": "$5",
        "is": ["delivered", 7],
    }
    assert row["frozen"] is None


async def test_a_batch_that_is_run_again_owes_nothing_twice(ledger: Ledger) -> None:
    entries = [
        make_entry(make_source(), make_body(number), now_ms=ledger.now_ms) for number in range(5)
    ]
    batch = await batch_of(ledger, entries, make_route())

    first = await ledger.database.record(batch)
    second = await ledger.database.record(batch)

    assert first == second
    assert len(await ledger.database.read(rows_of)) == 5


async def test_a_batch_routed_by_an_older_configuration_is_not_written(ledger: Ledger) -> None:
    entry = make_entry(make_source(), make_body(1), now_ms=ledger.now_ms)
    warm = make_entry(make_source(), make_body(2), now_ms=ledger.now_ms)
    # A first batch, so that PostgreSQL guesses at the second and finds out in the writing itself.
    await ledger.database.record(await batch_of(ledger, [warm]))
    batch = await batch_of(ledger, [entry])
    await ledger.database.write(version.bump)

    with pytest.raises(OutdatedError):
        await ledger.database.record(batch)

    events = await ledger.database.read(lambda tx: tx.execute(select(EVENTS.c.id)).all())
    assert len(events) == 1


async def test_a_route_made_elsewhere_is_not_missed(ledger: Ledger) -> None:
    known = [await routing_of(ledger)]
    calls: list[frozenset[str]] = []

    async def refresh() -> None:
        known.append(await routing_of(ledger, make_route()))

    recorder = Recorder(
        ledger.database,
        Clock(),
        Metrics(),
        Limits(),
        routing=lambda: known[-1],
        refresh=refresh,
        owed=calls.append,
    )
    recorder.start()
    await recorder.record(make_entry(make_source(), make_body(1), now_ms=ledger.now_ms))
    await ledger.database.write(version.bump)
    await recorder.record(make_entry(make_source(), make_body(2), now_ms=ledger.now_ms))
    await recorder.close()

    rows = await ledger.database.read(rows_of)
    assert [row["route"] for row in rows] == ["rte_crm"]
    assert calls == [{"rte_crm"}]
