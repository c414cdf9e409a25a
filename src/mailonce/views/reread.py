"""Read an arrival again, to show what the log does not keep: the provider's element of an event."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.events.event import Event
from mailonce.errors import ParseError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import arrivals, origins
from mailonce.store.ledger.arrivals import StoredArrival
from mailonce.views.origins import Origins

# How many bodies are in memory at once.
AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Reread:
    """An arrival's body, and the events that today's code finds in it."""

    body: bytes
    events: tuple[Event, ...] = field(default=())

    def event(self, position: int) -> Event | None:
        """Give the event at a position, or None where today's code finds none."""
        return self.events[position] if 0 <= position < len(self.events) else None

    def raw(self, position: int) -> Any:
        """Give the element as it was sent, or the whole body where it cannot be located."""
        event = self.event(position)
        if event is None or event.raw is None:
            return self.body.decode("utf-8", "replace")
        return writable(event.raw)


async def read_again(
    database: Database, workspace: str, known: Origins, ids: Iterable[bytes]
) -> Mapping[bytes, Reread]:
    """Parse these arrivals anew, some at a time; those whose body is gone are left out."""
    parsed: dict[bytes, Reread] = {}
    wanted = sorted(set(ids))
    for some in (wanted[at : at + AT_ONCE] for at in range(0, len(wanted), AT_ONCE)):
        stored = await _fetch(database, workspace, some)
        # A body may have thousands of events: not on the loop that serves everybody.
        parsed |= await asyncio.to_thread(_parse_all, known, stored)
    return parsed


def arrivals_reader(
    database: Database,
) -> Callable[[str, Iterable[bytes]], Awaitable[Mapping[bytes, Reread]]]:
    """Give a function that parses arrivals of a workspace anew."""

    async def read(workspace: str, ids: Iterable[bytes]) -> Mapping[bytes, Reread]:
        known = await database.read(lambda tx: origins.of_workspace(tx, workspace))
        return await read_again(database, workspace, known, ids)

    return read


async def _fetch(database: Database, workspace: str, ids: Sequence[bytes]) -> list[StoredArrival]:
    def work(tx: Tx) -> list[StoredArrival]:
        rows = (arrivals.get(tx, workspace, id_) for id_ in ids)
        return [row for row in rows if row is not None]

    return await database.read(work)


def _parse_all(known: Origins, stored: Iterable[StoredArrival]) -> dict[bytes, Reread]:
    return {one.id: _parse(known, one, one.body) for one in stored if one.body is not None}


def _parse(known: Origins, stored: StoredArrival, body: bytes) -> Reread:
    source = known.get(stored.source)
    provider = None if source is None else providers.find(source.provider)
    if source is None or provider is None:
        return Reread(body)
    arrival = Arrival(
        method="POST",
        headers=_headers(stored.headers),
        body=body,
        now_ms=stored.received_ms,
    )
    try:
        return Reread(body, provider.parse(arrival, source).events)
    except ParseError:
        return Reread(body)


def _headers(kept: bytes) -> Mapping[str, str]:
    value = orjson.loads(kept) if kept else {}
    return value if isinstance(value, dict) else {}


def writable(raw: Any) -> Any:
    """Replace what no UTF-8 text can hold: lone surrogates, which the lenient reader lets in."""
    try:
        orjson.dumps(raw)
    except TypeError:
        return json.loads(json.dumps(raw, ensure_ascii=False).encode("utf-8", "replace"))
    return raw
