"""Order and multiplicity vanish: any shuffle of any copies leaves the same state."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.events.facts import Kind, status
from mailonce.core.events.suppression import RecordedStatement, standing
from mailonce.pipeline.parse import entry_of
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.dialects.contract import Database, Routing
from mailonce.store.schema.tables import COUNTS, DELIVERIES, EVENTS, FACTS, SUPPRESSIONS
from mailonce.telemetry import Metrics

CLIENTS = 8
WORKSPACES = itertools.count()

sesmetric_events = st.builds(
    lambda **fields: ("sesmetric", [fields]),
    id=st.integers(0, 30).map("evt_{}".format),
    type=st.sampled_from(
        [
            "sent",
            "deferred",
            "delivery",
            "bounce",
            "rejected",
            "complaint",
            "open",
            "click",
            "unsubscribe",
            "subscribe",
            "mystery",
        ]
    ),
    bounce_type=st.sampled_from(["hard", "soft", "blocked", None]),
    message_id=st.sampled_from(["m1", "m2", ""]),
    recipient=st.sampled_from(["ann@x.test", "BOB@x.test", None]),
    timestamp=st.sampled_from([None, 0, 1_794_000_000, 1_794_000_001, 1_794_000_900, 4e9]),
)


def _as_sendgrid(elements: list[dict[Any, Any]]) -> tuple[str, list[dict[str, Any]]]:
    # SendGrid's key holds the reason but not the type: one must follow from the other, or two
    # events would share a key with other content, which is a conflict and told elsewhere.
    for element in elements:
        element["type"] = "bounce" if element["reason"] == "550 no" else "blocked"
    return "sendgrid", elements


# SendGrid posts arrays, and re-issues its event ids: the alias differs while the content does not.
sendgrid_events: st.SearchStrategy[tuple[str, list[dict[str, Any]]]] = st.lists(
    st.builds(
        dict,
        event=st.sampled_from(["delivered", "deferred", "bounce", "spamreport", "open", "dropped"]),
        type=st.sampled_from(["bounce", "blocked"]),
        reason=st.sampled_from(["550 no", "Bounced Address"]),
        email=st.sampled_from(["ann@x.test", "bob@x.test"]),
        sg_message_id=st.sampled_from(["g1.f", "g2.f"]),
        timestamp=st.integers(1_794_000_000, 1_794_000_002),
    ),
    min_size=1,
    max_size=4,
).map(_as_sendgrid)


def _without_conflicts(arrivals: list[tuple[str, list[dict[str, Any]]]]) -> Any:
    """Keep one content per event id: what a conflict leaves is told elsewhere."""
    seen: dict[str, dict[str, Any]] = {}
    return [
        (provider, [seen.setdefault(e["id"], e) if "id" in e else e for e in elements])
        for provider, elements in arrivals
    ]


def _routes_of(workspace: str) -> list[Route]:
    """Routes that look at every part of an event."""
    filters: dict[str, dict[str, Any]] = {
        "all": {},
        "bounces": {"events": ("bounced", "complained")},
        "ann": {"domains": ("x.test",), "expression": "recipient == 'ann@x.test'"},
        "mapped": {"mapping": {"to": "$.recipient", "what": "$.type"}},
    }
    return [
        Route(id=name, workspace=workspace, name=name, kind=RouteKind.POLL, **fields)
        for name, fields in filters.items()
    ]


class _EveryWorkspace(dict[str, list[Route]]):
    """The same routes in whichever workspace is asked for."""

    def get(self, key: str, default: Any = None) -> Any:
        del default
        return _routes_of(key)


@pytest.fixture
async def recorder(database: Database) -> AsyncIterator[Recorder]:
    version = (await database.head()).configuration

    async def unchanged() -> bool:
        return False

    made = Recorder(
        database,
        Clock(),
        Metrics(),
        Limits(batch_events_max=7),
        routing=lambda: Routing(version, _EveryWorkspace()),
        refresh=unchanged,
    )
    made.start()
    yield made
    await made.close()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    arrivals=st.lists(st.one_of(sesmetric_events, sendgrid_events), min_size=1, max_size=12).map(
        _without_conflicts
    ),
    seed=st.integers(0, 2**32),
)
async def test_any_shuffle_of_any_copies_leaves_the_same_state(
    database: Database,
    recorder: Recorder,
    arrivals: list[tuple[str, list[dict[str, Any]]]],
    seed: int,
) -> None:
    chance = random.Random(seed)
    once = f"w{next(WORKSPACES)}"
    await _post(recorder, once, arrivals, clients=1, chance=chance)

    shuffled = f"w{next(WORKSPACES)}"
    copies = [arrival for arrival in arrivals for _ in range(chance.randint(1, 4))]
    chance.shuffle(copies)
    await _post(recorder, shuffled, copies, clients=CLIENTS, chance=chance)

    state = await _state(database, once)
    assert await _state(database, shuffled) == state
    assert sum(row[0] == "all" for row in state["deliveries"]) == len(state["events"])


async def _post(
    recorder: Recorder,
    workspace: str,
    arrivals: list[tuple[str, list[dict[str, Any]]]],
    *,
    clients: int,
    chance: random.Random,
) -> None:
    waiting = iter(arrivals)
    clock = Clock()

    async def client() -> None:
        for name, elements in waiting:
            provider = providers.find(name)
            assert provider is not None
            body = (
                [
                    {**e, "sg_event_id": f"{chance.random()}"}
                    for e in elements
                    if e["event"] != "open"
                ]
                or elements
                if name == "sendgrid"
                else elements[0]
            )
            arrival = Arrival(method="POST", headers={}, body=orjson.dumps(body), now_ms=0)
            source = Source(
                id=f"{workspace}-{name}", workspace=workspace, name=name, provider=name, account="a"
            )
            parsed = provider.parse(arrival, source)
            await recorder.record(entry_of(provider, source, arrival, parsed, new_id=clock.new_id))

    await asyncio.gather(*(client() for _ in range(clients)))


async def _state(database: Database, workspace: str) -> dict[str, Any]:
    """Read what must be equal; keys and stamps hold the workspace, so only their times count."""
    facts = await database.read(
        lambda tx: tx.execute(select(FACTS).where(FACTS.c.workspace == workspace)).mappings().all()
    )
    statements = await database.read(
        lambda tx: (
            tx.execute(select(SUPPRESSIONS).where(SUPPRESSIONS.c.workspace == workspace))
            .mappings()
            .all()
        )
    )
    counts = await database.read(
        lambda tx: (
            tx.execute(select(COUNTS).where(COUNTS.c.workspace == workspace)).mappings().all()
        )
    )
    events = await database.read(
        lambda tx: (
            tx.execute(select(EVENTS).where(EVENTS.c.workspace == workspace)).mappings().all()
        )
    )
    owed = await database.read(
        lambda tx: tx.execute(
            select(DELIVERIES.c.route, DELIVERIES.c.body, EVENTS.c.type, EVENTS.c.recipient)
            .join(EVENTS, (EVENTS.c.day == DELIVERIES.c.day) & (EVENTS.c.id == DELIVERIES.c.event))
            .where(DELIVERIES.c.workspace == workspace)
        ).all()
    )
    kinds: dict[tuple[str, str], set[Kind]] = {}
    for row in facts:
        kinds.setdefault((row["message_id"], row["recipient"]), set()).add(Kind(row["kind"]))
    registers: dict[tuple[str, str, str], list[RecordedStatement]] = {}
    for row in statements:
        place = (row["address"], row["stream"], row["cause"])
        registers.setdefault(place, []).append(
            RecordedStatement(lifts=row["lifts"], stamp=row["stamp"], reason=row["reason"])
        )
    totals: dict[tuple[str, str], int] = {}
    for row in counts:
        place_ = (row["source"].removeprefix(workspace), row["type"])
        totals[place_] = totals.get(place_, 0) + row["count"]
    return {
        "facts": sorted(
            (
                r["message_id"],
                r["recipient"],
                r["account"],
                r["kind"],
                r["count"],
                bytes(r["first"] or b"")[:8],
                bytes(r["last"] or b"")[:8],
            )
            for r in facts
        ),
        "status": {place: status(known) for place, known in kinds.items()},
        "suppressed": {
            place: bytes(stands.stamp or b"")[:8]
            for place, rows in registers.items()
            if (stands := standing(rows)) is not None
        },
        "counts": totals,
        # An event as it is has its own id in it; a mapping leaves that out.
        "deliveries": sorted(
            (r[0], bytes(r[1]) if r[0] == "mapped" else b"", r[2], r[3]) for r in owed
        ),
        "events": sorted((r["type"], r["message_id"], r["recipient"]) for r in events),
    }
