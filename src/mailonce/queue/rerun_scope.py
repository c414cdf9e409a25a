"""The scope of a rerun: counted a bounded piece at a time, so that no read is long."""

from functools import partial
from typing import NamedTuple

from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.errors import MissingError
from mailonce.store.dialects.contract import DAY_MS, Database, Tx
from mailonce.store.work import pages, redelivery, reprocessing
from mailonce.store.work.pages import DeliveryPosition
from mailonce.store.work.redelivery import RedeliveryCount, RedeliveryRequest

COUNT_ROWS = 50_000


class RerunScope(NamedTuple):
    """The filter of a rerun, and its end; `again` has the parameters of a redelivery."""

    workspace: str
    kind: RerunKind
    where: RerunFilter
    now_ms: int
    again: RedeliveryRequest


def beginning(where: RerunFilter) -> DeliveryPosition:
    """Give the position before the first delivery that matches."""
    return redelivery.BEGINNING if where.since_ms is None else DeliveryPosition(where.since_ms, b"")


def end_ms_of(where: RerunFilter, now_ms: int) -> int:
    """Say where a rerun ends: it leaves out what arrives after its beginning."""
    return now_ms if where.until_ms is None else min(where.until_ms, now_ms)


async def count(database: Database, scope: RerunScope) -> RedeliveryCount:
    """Count what a rerun would go through; of events nothing is erased.

    Raises: MissingError where something was named that is not there.
    """
    if scope.where.ids:
        return await database.read(partial(_count_named, scope=scope))
    if scope.kind is RerunKind.REPROCESSING:
        return RedeliveryCount(await _count_events(database, scope))
    total = erased = 0
    place: DeliveryPosition | None = beginning(scope.where)
    while place is not None:
        counted, place = await database.read(partial(_count_slice, scope=scope, after=place))
        total += counted.total
        erased += counted.erased
    return RedeliveryCount(total, erased)


def _count_slice(
    tx: Tx, scope: RerunScope, after: DeliveryPosition
) -> tuple[RedeliveryCount, DeliveryPosition | None]:
    end_ms = end_ms_of(scope.where, scope.now_ms)
    last = redelivery.boundary(tx, after=after, until_ms=end_ms, rows=COUNT_ROWS)
    bounds = redelivery.in_slice(after, last, end_ms)
    return redelivery.count(tx, scope.workspace, scope.where, bounds, scope.again), last


async def _count_events(database: Database, scope: RerunScope) -> int:
    today = scope.now_ms // DAY_MS
    first = await database.read(lambda tx: reprocessing.first_day(tx, scope.where, today=today))
    last = end_ms_of(scope.where, scope.now_ms) // DAY_MS
    total = 0
    for day in range(first, last + 1):
        total += await database.read(
            partial(reprocessing.count_on, workspace=scope.workspace, where=scope.where, day=day)
        )
    return total


def _count_named(tx: Tx, scope: RerunScope) -> RedeliveryCount:
    ids = scope.where.ids
    if scope.kind is RerunKind.REPROCESSING:
        wanted, known = reprocessing.get_named(tx, scope.workspace, scope.where)
        counted = RedeliveryCount(len(wanted))
    else:
        bounds = redelivery.by_keys(ids)
        known = len(pages.get_many(tx, scope.workspace, ids))
        counted = redelivery.count(tx, scope.workspace, scope.where, bounds, scope.again)
    if known < len(set(ids)):
        nouns = "events" if scope.kind is RerunKind.REPROCESSING else "deliveries"
        raise MissingError(f"one of `ids` is not there, or was pruned; see GET /v1/{nouns}")
    return counted
