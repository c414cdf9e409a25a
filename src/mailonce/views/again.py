"""Read an arrival again, to show what the log does not keep: the element behind an event."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from mailonce import providers
from mailonce.core.arrival import Arrival
from mailonce.core.event import Event
from mailonce.errors import ParseError
from mailonce.store import arrivals
from mailonce.store.arrivals import StoredArrival
from mailonce.store.dialects.contract import Database
from mailonce.views.origins import Origins


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """An arrival's body, and the events that today's code finds in it."""

    body: bytes
    events: tuple[Event, ...] = field(default=())

    def event(self, position: int) -> Event | None:
        """Give the event at a position, or None where today's code finds none."""
        return self.events[position] if 0 <= position < len(self.events) else None

    def raw(self, position: int) -> Any:
        """Give the element as it came, or the whole body where it cannot be told apart."""
        event = self.event(position)
        if event is None or event.raw is None:
            return self.body.decode("utf-8", "replace")
        return writable(event.raw)


async def read_again(
    database: Database, workspace: str, origins: Origins, ids: Iterable[bytes]
) -> Mapping[bytes, ReadAgain]:
    """Parse these arrivals anew, one after the other; those whose body is gone are left out."""
    found: dict[bytes, ReadAgain] = {}
    for id_ in sorted(set(ids)):
        arrival = await _fetch(database, workspace, id_)
        if arrival is not None and arrival.body is not None:
            # A body may have thousands of events: not on the loop that serves everybody.
            found[id_] = await asyncio.to_thread(_parse, origins, arrival, arrival.body)
    return found


async def _fetch(database: Database, workspace: str, id_: bytes) -> StoredArrival | None:
    return await database.read(lambda tx: arrivals.get(tx, workspace, id_))


def _parse(origins: Origins, stored: StoredArrival, body: bytes) -> ReadAgain:
    source = origins.get(stored.source)
    provider = None if source is None else providers.find(source.provider)
    if source is None or provider is None:
        return ReadAgain(body)
    arrival = Arrival(
        method="POST",
        headers=_headers(stored.headers),
        body=body,
        now_ms=stored.received_ms,
    )
    try:
        return ReadAgain(body, provider.parse(arrival, source).events)
    except ParseError:
        return ReadAgain(body)


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
