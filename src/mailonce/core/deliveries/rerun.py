"""A rerun: deliveries or events to send again, slice by slice, and its progress."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.core.work.states import State

# How many ids may be named one by one.
IDS_MAX = 1_000
# What is finished may be sent again; what is pending is sent anyway.
FINISHED_STATES = (State.DONE, State.DEAD)


class RerunKind(StrEnum):
    """The same bytes under the same key again, or today's mapping under a new key."""

    REDELIVERY = "redelivery"
    REPROCESSING = "reprocessing"

    @property
    def prefix(self) -> str:
        return "rdl" if self is RerunKind.REDELIVERY else "rpr"

    @property
    def plural(self) -> str:
        return "redeliveries" if self is RerunKind.REDELIVERY else "reprocessings"


class RerunState(StrEnum):
    """The state of a rerun."""

    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunFilter:
    """What to go through; times speak of the event's receipt, the end excluded.

    `ids` are keys of deliveries, or ids of events; where they are given nothing else counts.
    `missing`: only events of which the route never had a delivery, also where `ids` are given.
    """

    route: str | None = None
    type: EventType | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    states: tuple[State, ...] = FINISHED_STATES
    ids: tuple[bytes, ...] = ()
    missing: bool = False

    def written(self) -> bytes:
        return orjson.dumps(
            {
                "route": self.route,
                "type": None if self.type is None else str(self.type),
                "since_ms": self.since_ms,
                "until_ms": self.until_ms,
                "states": [int(state) for state in self.states],
                "ids": [one.hex() for one in self.ids],
                "missing": self.missing,
            }
        )

    @classmethod
    def read(cls, written: bytes) -> "RerunFilter":
        """Read what `written` wrote."""
        fields: dict[str, Any] = orjson.loads(written)
        return cls(
            route=fields["route"],
            type=None if fields["type"] is None else EventType(fields["type"]),
            since_ms=fields["since_ms"],
            until_ms=fields["until_ms"],
            states=tuple(State(state) for state in fields["states"]),
            ids=tuple(bytes.fromhex(id_) for id_ in fields["ids"]),
            # A version of before did not write it.
            missing=fields.get("missing", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A rerun as stored. How far it got is (`after_mark`, `after_key`).

    That is a delivery's time in milliseconds and its key, or an event's day and its id.
    """

    id: bytes
    workspace: str
    kind: RerunKind
    filter: RerunFilter
    state: RerunState
    after_mark: int
    after_key: bytes
    total: int
    done: int
    created_ms: int
    changed_ms: int
