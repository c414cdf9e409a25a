"""What cannot be sent again, and why: its mail was deleted, or its route was removed."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from mailonce.core.deliveries.delivery import delivery_id
from mailonce.core.deliveries.removed_route import removed_route_words
from mailonce.core.deliveries.rerun import RerunFilter
from mailonce.core.deliveries.route import Route
from mailonce.errors import RefusedError
from mailonce.queue.deliveries import ERASED
from mailonce.store.configuration import removed_routes
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.store.work import pages, redelivery


class NamedDeliveries(NamedTuple):
    """The deliveries that can be sent again of those that were named, and how many cannot."""

    filter_: RerunFilter
    mail_deleted: int = 0
    route_removed: int = 0


async def leave_out_unsendable(
    database: Database, workspace: str, filter_: RerunFilter, routes: Collection[Route]
) -> NamedDeliveries:
    """Leave out of the deliveries that are named one by one those that cannot be sent again.

    Raises: RefusedError where none is left.
    """
    if not filter_.ids:
        return NamedDeliveries(filter_)
    named = tuple(dict.fromkeys(filter_.ids))

    def work(tx: Tx) -> tuple[set[bytes], dict[bytes, str]]:
        erased = redelivery.erased(tx, workspace, named)
        there = {route.id for route in routes}
        rows = pages.get_many(tx, workspace, named)
        left = {bytes(row.key): row.route for row in rows if row.route not in there}
        return erased, {key: route for key, route in left.items() if key not in erased}

    erased, of_removed = await database.read(work)
    ids = tuple(key for key in named if key not in erased and key not in of_removed)
    if ids:
        return NamedDeliveries(replace(filter_, ids=ids), len(erased), len(of_removed))
    why = ERASED
    if (removed := of_removed.get(named[0])) is not None:
        find = partial(
            _removed_words, workspace=workspace, route_id=removed, routes=routes,
            delivery=delivery_id(named[0]),
        )  # fmt: skip
        why = await database.read(find)
    others = f", nor can {len(named) - 1:,} more" if len(named) > 1 else ""
    raise RefusedError(f"{delivery_id(named[0])} cannot be sent again{others}: {why}")


def why_not(tx: Tx, letter: DeadLetter, routes: Collection[Route]) -> str:
    """Say why nothing of the delivery of a letter can be sent again."""
    assert letter.delivery is not None, "only a delivery is sent again"
    if redelivery.erased(tx, letter.workspace, [letter.delivery]):
        return f"{ERASED}; nothing is left to send"
    if letter.route is None or letter.route in {route.id for route in routes}:
        return "its body is past the window; nothing is left to send"
    return _removed_words(tx, letter.workspace, letter.route, routes)


def _removed_words(
    tx: Tx,
    workspace: str,
    route_id: str,
    routes: Collection[Route],
    *,
    delivery: str | None = None,
) -> str:
    name = removed_routes.removed_name(tx, workspace, route_id)
    is_taken = name in {route.name for route in routes}
    return removed_route_words(name, is_taken=is_taken, delivery=delivery)
