"""Refusals: refused arrivals, counted by reason and minute, with one sample each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select, tuple_

from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.filters import between, equal
from mailonce.store.schema.tables import REFUSALS


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalCount:
    """What one process refused for one reason in one minute; minutes are counted from 1970."""

    workspace: str
    source: str
    reason: str
    minute: int
    process: bytes
    count: int
    body_bytes: int
    headers: bytes
    sample: bytes
    # The address that the sample came from.
    peer: str | None = None


class RefusalSum(NamedTuple):
    """How often arrivals of a source were refused for one reason."""

    source: str
    reason: str
    times: int
    last_minute: int


class RefusalPosition(NamedTuple):
    """Where a page of refusals ends."""

    minute: int
    source: str
    reason: str
    process: bytes


def add_all(tx: Connection, refusals: Sequence[RefusalCount]) -> None:
    """Store counters; one that exists already is raised and keeps its first sample."""
    insert_or_add(tx, REFUSALS, [asdict(refusal) for refusal in refusals], add=("count",))


def sums(tx: Connection, *, minute: int, limit: int) -> list[RefusalSum]:
    """Count refusals of all workspaces since a minute, the most frequent first."""
    of, many = REFUSALS.c, func.sum(REFUSALS.c.count)
    last = func.max(of.minute)
    query = select(of.source, of.reason, many, last).where(of.minute >= minute)
    grouped = query.group_by(of.source, of.reason).order_by(many.desc()).limit(limit)
    return [RefusalSum(row[0], row[1], int(row[2]), row[3]) for row in tx.execute(grouped)]


def page(
    tx: Connection,
    workspace: str,
    *,
    source: str | None,
    minutes: tuple[int | None, int | None] = (None, None),
    below: RefusalPosition | None,
    limit: int,
) -> list[RefusalCount]:
    """List refusals, the newest minute first; `minutes`: from one, and before another."""
    order = tuple(REFUSALS.c[name] for name in RefusalPosition._fields)
    query = select(REFUSALS).where(
        *equal(REFUSALS, workspace=workspace, source=source), *between(REFUSALS.c.minute, *minutes)
    )
    if below is not None:
        query = query.where(tuple_(*order) < tuple_(*below))
    query = query.order_by(*(column.desc() for column in order)).limit(limit)
    return [RefusalCount(**row) for row in tx.execute(query).mappings()]
