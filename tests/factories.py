"""Make entries as the pipeline makes them: through the provider's own parser."""

import itertools
import os
from collections.abc import Iterable
from typing import Any

import orjson
from sqlalchemy import insert

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.delivery import key_of
from mailonce.core.deliveries.route import Route
from mailonce.core.events.event import detail_of
from mailonce.core.events.key import KeyScope, dead_key, keys_of
from mailonce.core.ids import ArrivalId, EventId, mint
from mailonce.core.ledger.entry import (
    Candidate,
    Dead,
    Entry,
    EntryOutcome,
)
from mailonce.core.signatures.sealing import Sealer
from mailonce.providers.sesmetric import PROVIDER
from mailonce.store.configuration import routes
from mailonce.store.dialects.contract import Batch, Database, Routing
from mailonce.store.schema.tables import SOURCES, WORKSPACES

# Ids are minted near the database's own time; tests add days to it where they need them.
_numbers = itertools.count(1)
SEALER = Sealer(["a master key of tests"])


def new_id(now_ms: int) -> bytes:
    """Mint an id; those of one millisecond sort in the order they were asked for."""
    return mint(now_ms, next(_numbers).to_bytes(7, "big") + bytes(3))


def make_source(**changes: Any) -> Source:
    fields: dict[str, Any] = {
        "id": "src_main",
        "workspace": "default",
        "name": "main",
        "provider": "sesmetric",
        "account": "main",
    }
    return Source(**(fields | changes))


def make_body(number: int | str = 1, **changes: Any) -> bytes:
    """Write a SESMetric event; the number makes its id."""
    fields = {
        "id": f"evt-{number}",
        "type": "delivered",
        "message_id": "m-1",
        "recipient": "ada@example.com",
        "timestamp": 1_767_225_600,
    }
    return orjson.dumps(
        {name: value for name, value in (fields | changes).items() if value is not None}
    )


def make_entry(
    source: Source,
    body: bytes,
    *,
    now_ms: int,
    signs_body: bool = True,
    arrival_key: str | None = None,
    dead: tuple[Dead, ...] = (),
) -> Entry:
    arrival = Arrival(method="POST", headers={}, body=body, now_ms=now_ms)
    events = () if dead else PROVIDER.parse(arrival, source).events
    scope = KeyScope(source.workspace, source.provider, source.account)
    return Entry(
        id=ArrivalId(new_id(now_ms)),
        workspace=source.workspace,
        source=source.id,
        account=f"{source.provider}/{source.account}",
        arrival_key=arrival_key or f"arrival-{next(_numbers)}",
        body=body,
        headers=b"{}",
        signs_body=signs_body,
        events=tuple(
            Candidate(
                EventId(new_id(now_ms)),
                event,
                keys_of(scope, event.identity),
                orjson.dumps(detail_of(event)),
            )
            for event in events
        ),
        dead=dead,
    )


def make_dead(id_: bytes, reason: str, raw: bytes) -> Dead:
    return Dead(id_, 0, reason, raw, dead_key("default", "sesmetric/main", raw))


class Ledger:
    """A database with sources in it, and a short way to fill it."""

    def __init__(self, database: Database, now_ms: int) -> None:
        self.database = database
        self.now_ms = now_ms
        self.routes: dict[str, Route] = {}

    async def add_source(self, source: Source) -> Source:
        row = {
            "id": source.id,
            "workspace": source.workspace,
            "name": source.name,
            "provider": source.provider,
            "account": source.account,
            "settings": orjson.dumps({"options": dict(source.options)}),
            "sealed": b"",
            "origin": "api",
            "created_ms": 0,
        }
        await self.database.write(lambda tx: tx.execute(insert(SOURCES), row) and None)
        return source

    async def add_workspace(self, name: str) -> None:
        row = {"id": name, "name": name, "created_ms": 0}
        await self.database.write(lambda tx: tx.execute(insert(WORKSPACES), row) and None)

    async def add_route(self, **changes: Any) -> Route:
        """Make a webhook route that takes everything."""
        fields: dict[str, Any] = {
            "id": "rte_main",
            "workspace": "default",
            "name": changes.get("id", "rte_main"),
            "url": "http://127.0.0.1:1/hooks",
        }
        route = Route(**(fields | changes))
        await self.database.write(
            lambda tx: routes.put(
                tx, route, SEALER, origin="api", now_ms=self.now_ms, chance=os.urandom
            )
        )
        self.routes[route.id] = route
        return route

    async def owe(self, number: int = 1, *, source: Source | None = None) -> list[bytes]:
        """Record events of their own, owed to every route; give the keys in order."""
        source = source or make_source()
        bodies = [make_body(f"owed-{next(_numbers)}") for _ in range(number)]
        entries = [make_entry(source, body, now_ms=self.now_ms) for body in bodies]
        by_workspace: dict[str, list[Route]] = {}
        for route in self.routes.values():
            by_workspace.setdefault(route.workspace, []).append(route)
        head = await self.database.head()
        batch = Batch(
            new_id(self.now_ms), entries, routing=Routing(head.configuration, by_workspace)
        )
        await self.database.record(batch)
        return sorted(
            key_of(candidate.keys.key.hex(), route.id)
            for entry in entries
            for candidate in entry.events
            for route in by_workspace.get(entry.workspace, ())
        )

    async def record(
        self, *entries: Entry, days_ago: int = 0, received_ms: int | None = None
    ) -> list[EntryOutcome]:
        """Record entries as one batch, received today or some days before."""
        received_ms = received_ms or self.now_ms - days_ago * 86_400_000
        await self.database.ensure_days(
            range(received_ms // 86_400_000, received_ms // 86_400_000 + 1)
        )
        return await self.database.record(Batch(new_id(self.now_ms), list(entries), received_ms))

    async def tell(
        self, source: Source, bodies: Iterable[bytes], *, days_ago: int = 0, signs_body: bool = True
    ) -> list[EntryOutcome]:
        """Record each body as an arrival of its own, in one batch."""
        now_ms = self.now_ms - days_ago * 86_400_000
        entries = [
            make_entry(source, body, now_ms=now_ms, signs_body=signs_body) for body in bodies
        ]
        return await self.record(*entries, days_ago=days_ago)
