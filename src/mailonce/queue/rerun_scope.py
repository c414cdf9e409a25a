"""How much a rerun goes through: counted a bounded piece at a time, so that no read is long."""

from functools import partial
from typing import NamedTuple

from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.errors import MissingError
from mailonce.store.dialects.contract import DAY_MS, Database, Tx
from mailonce.store.ledger import events
from mailonce.store.work import pages, redelivery, reprocessing
from mailonce.store.work.pages import DeliveryPosition
from mailonce.store.work.redelivery import RedeliveryRequest

COUNT_ROWS = 50_000


class RerunScope(NamedTuple):
    """What is asked for, and up to when; `again` is what redelivering needs to know."""

    workspace: str
    kind: RerunKind
    asked: RerunFilter
    now_ms: int
    again: RedeliveryRequest


def beginning(asked: RerunFilter) -> DeliveryPosition:
    """Give the place before the first delivery that is asked for."""
    return redelivery.BEGINNING if asked.since_ms is None else DeliveryPosition(asked.since_ms, b"")


def end_ms_of(asked: RerunFilter, now_ms: int) -> int:
    """Say where a rerun ends: what comes after its beginning is not its business."""
    return now_ms if asked.until_ms is None else min(asked.until_ms, now_ms)


async def count(database: Database, scope: RerunScope) -> int:
    """Count what a rerun would go through.

    Raises: MissingError where something was named that is not there.
    """
    if scope.asked.ids:
        return await database.read(partial(_count_named, scope=scope))
    if scope.kind is RerunKind.REPROCESSING:
        return await _count_events(database, scope)
    total = 0
    place: DeliveryPosition | None = beginning(scope.asked)
    while place is not None:
        found, place = await database.read(partial(_count_slice, scope=scope, after=place))
        total += found
    return total


def _count_slice(
    tx: Tx, scope: RerunScope, after: DeliveryPosition
) -> tuple[int, DeliveryPosition | None]:
    end_ms = end_ms_of(scope.asked, scope.now_ms)
    last = redelivery.boundary(tx, after=after, until_ms=end_ms, rows=COUNT_ROWS)
    bounds = redelivery.in_slice(after, last, end_ms)
    return redelivery.count(tx, scope.workspace, scope.asked, bounds, scope.again), last


async def _count_events(database: Database, scope: RerunScope) -> int:
    today = scope.now_ms // DAY_MS
    first = await database.read(lambda tx: reprocessing.first_day(tx, scope.asked, today=today))
    last = end_ms_of(scope.asked, scope.now_ms) // DAY_MS
    total = 0
    for day in range(first, last + 1):
        total += await database.read(
            partial(reprocessing.count_on, workspace=scope.workspace, asked=scope.asked, day=day)
        )
    return total


def _count_named(tx: Tx, scope: RerunScope) -> int:
    ids = scope.asked.ids
    if scope.kind is RerunKind.REPROCESSING:
        known = total = len(events.get_many(tx, scope.workspace, ids))
    else:
        bounds = redelivery.by_keys(ids)
        known = len(pages.get_many(tx, scope.workspace, ids))
        total = redelivery.count(tx, scope.workspace, scope.asked, bounds, scope.again)
    if known < len(set(ids)):
        raise MissingError("one of `ids` is not there, or was pruned; see the list")
    return total
