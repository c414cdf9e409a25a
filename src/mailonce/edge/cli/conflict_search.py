"""Conflicts in words, and those that name one address, for `mailonce recipient`."""

from collections.abc import Collection, Iterable
from typing import Any

import orjson

from mailonce.edge.cli.client import ApiSession
from mailonce.edge.cli.show import BRIEF_CHARS_MAX, Column, Show

# No index leads from an address to the copies that name it: the newest are read through.
CONFLICTS_MAX = 500

COLUMNS = (
    Column("received", "received_at"),
    Column("source", "source_name"),
    Column("reason", "reason", wraps=True),
    Column("kept", "kept", wraps=True),
    Column("other", "other", wraps=True),
    Column("kept event", "event", whole=True),
    Column("other event", "other_event", whole=True),
)


def conflict_rows(conflicts: Iterable[Any]) -> list[dict[str, Any]]:
    """Give the rows of conflicts: what was kept, and what the other copy says instead."""
    return [
        {**one, "kept": _values(one["differs"], "kept"), "other": _values(one["differs"], "other")}
        for one in conflicts
    ]


async def find_conflicts(
    client: ApiSession, address: str, events: Collection[str]
) -> dict[str, Any]:
    """List conflicts of an address's events, and those in which a value names the address.

    `complete` is false where there are more conflicts than were searched.
    """
    page = await client.some("conflicts", limit=CONFLICTS_MAX)
    matches = [
        one for one in page["data"] if one["event"] in events or _names(one["differs"], address)
    ]
    return {"data": matches, "complete": page["next"] is None}


def show_conflicts(show: Show, conflicts: dict[str, Any]) -> None:
    """Print what `find_conflicts` gave, and where it did not look."""
    if conflicts["data"]:
        show.say("\nconflicts that name this address, newest first")
        show.table(COLUMNS, conflict_rows(conflicts["data"]), sparse=True)
    if not conflicts["complete"]:
        show.say(f"there may be more: the newest {CONFLICTS_MAX} conflicts were searched")


def _values(differences: Collection[Any], side: str) -> str | None:
    """Write the values of one side, each with its field; each has its part of the room."""
    room = BRIEF_CHARS_MAX // max(1, len(differences))
    parts = [
        _cut(f"{one['field']}: {'none' if one[side] is None else _text(one[side])}", room)
        for one in differences
    ]
    return "; ".join(parts) or None


def _names(differences: Iterable[Any], address: str) -> bool:
    """Say whether a value has this address in it, alone or among other words."""
    wanted = address.casefold()
    return any(
        wanted in _text(one[side]).casefold() for one in differences for side in ("kept", "other")
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
