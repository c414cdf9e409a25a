"""Leases that are taken in the statement that records deliveries.

A delivery that this process's worker can start at once is leased as it is made: one statement and
one wake-up less for each. The worker reserves slots before the statement is sent, and begins after
its commit what the statement says it leased. Where the lane is somebody else's by then, the row is
due as any other. A batch that was tried before leases nothing, since its rows may stand already.

A crash between the commit and the first byte leaves a lease whose worker is gone: it is ended as
any lost lease is, and the attempt made again under the same key.
"""

from collections.abc import Collection

from mailonce.core.ledger.entry import EventRow, OwedRow, Rows
from mailonce.core.work.job import LeasedJob
from mailonce.core.work.states import AttemptKind, WorkKey
from mailonce.store.dialects.contract import Batch, Reservation

ATTEMPT = 1


def reserve(batch: Batch, rows: Rows) -> Reservation | None:
    """Reserve the worker's slots for a batch's deliveries, instead of those of an earlier try."""
    if not rows.of(OwedRow) or batch.was_lost:
        return None
    batch.release()
    keys: dict[str, list[WorkKey]] = {}
    for row in rows.of(OwedRow):
        keys.setdefault(row.route, []).append(row.key)
    batch.reservation = batch.reserve(keys)
    return batch.reservation


def columns_of(reservation: Reservation) -> tuple[list[str], list[int], int]:
    """Give the routes, how long their deliveries are leased, and under which token."""
    return list(reservation.lease_ms), list(reservation.lease_ms.values()), reservation.token


def jobs_of(batch: Batch, rows: Rows, keys: Collection[bytes], token: int) -> list[LeasedJob]:
    """Make the jobs of deliveries that were leased, as a lease would give them."""
    assert batch.received_ms is not None, "the batch is stamped before it is written"
    bodies = {row.id: row.body for row in rows.of(EventRow)}
    taken = set(keys)
    return [
        LeasedJob(
            key=row.key,
            token=token,
            route=row.route,
            lane=AttemptKind.FIRST,
            attempt=ATTEMPT,
            round_began=0,
            redeliveries=0,
            left_ms=row.deadline_s * 1000,
            made_ms=batch.received_ms,
            body=bodies.get(row.event) if row.body is None else row.body,
        )
        for row in rows.of(OwedRow)
        if row.key in taken
    ]
