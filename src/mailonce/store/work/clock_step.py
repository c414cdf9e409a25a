"""Move due times back when the database's clock was set back: they would wait that much longer.

Due times, leases and lanes are written by the database's clock. It is noted every few seconds;
where it then says less than it did, everything that lies ahead is brought back by the difference.
A due time that was written in between comes too early by that much, which a receiver bears.

Where it says far more than it did, nothing is deleted by it for a while: `core/health/clock_leap`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, literal_column, select, update

from mailonce.core.expectations.consumption import ConsumptionState
from mailonce.core.expectations.expectation import FINAL
from mailonce.core.health import clock_leap
from mailonce.core.work.states import State
from mailonce.store.schema.expectation_tables import CONSUMPTIONS, EXPECTATIONS
from mailonce.store.schema.tables import HEAD, LANES, RERUNS, WORKERS
from mailonce.store.schema.work_table import DELIVERY_TABLE, WorkTable

# Clocks are adjusted all the time; a smaller difference is no step.
TOLERANCE_MS = 2_000
NOTE_EVERY_MS = 4_000
CLOCK_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class ClockNote(NamedTuple):
    """What is written down of the clock: its time, the window, and from when on it may delete."""

    noted_ms: int
    window_days: int
    forget_from_ms: int

    def waits_until_ms(self, now_ms: int) -> int | None:
        """Say until when nothing is deleted; None: what is old by this time may be."""
        return clock_leap.waits_until_ms(
            self.forget_from_ms,
            noted_ms=self.noted_ms,
            now_ms=now_ms,
            window_days=self.window_days,
        )


_NOTE = select(HEAD.c.clock_ms, HEAD.c.window_days, HEAD.c.forget_from_ms)


def read_note(tx: Connection) -> ClockNote:
    return ClockNote(*tx.execute(_NOTE).one())


def mend(tx: Connection, *, now_ms: int, tables: Sequence[WorkTable] = (DELIVERY_TABLE,)) -> int:
    """Note the clock; where it was set back, move due times back, too, and say by how much.

    What it says is below zero where the clock leaped ahead. Of several processes that notice a
    step, one acts. `now_ms` counts on SQLite only, which has one process: others may have noted a
    later time since ours read it and was paused.
    """
    noted, now_ms = _noted_and_now(tx, now_ms)
    back_ms = noted.noted_ms - now_ms
    if -NOTE_EVERY_MS < back_ms <= TOLERANCE_MS:
        return 0
    from_ms = clock_leap.next_forget_from(
        noted.forget_from_ms,
        noted_ms=noted.noted_ms,
        now_ms=now_ms,
        window_days=noted.window_days,
    )
    note = update(HEAD).where(HEAD.c.clock_ms == noted.noted_ms)
    if not tx.execute(note.values(clock_ms=now_ms, forget_from_ms=from_ms)).rowcount:
        return 0
    if back_ms < 0:
        return back_ms if from_ms > noted.forget_from_ms else 0
    for work in tables:
        row, ahead = work.rows.c, update(work.rows)
        due = ahead.where(work.is_state(State.DUE), row.due_ms > now_ms)
        tx.execute(due.values(due_ms=row.due_ms - back_ms))
        leased = ahead.where(work.is_state(State.LEASED))
        tx.execute(leased.values(lease_ms=row.lease_ms - back_ms))
        for name in work.times:
            passed = ahead.where(row.done_ms.is_(None), row[name].is_not(None))
            tx.execute(passed.values({name: row[name] - back_ms}))
    for table in (LANES, WORKERS):
        ahead = update(table).where(table.c.until_ms > now_ms)
        tx.execute(ahead.values(until_ms=table.c.until_ms - back_ms))
    _mend_expectations(tx, back_ms, now_ms=now_ms)
    tx.execute(
        update(RERUNS)
        .where(RERUNS.c.changed_ms > now_ms)
        .values(changed_ms=RERUNS.c.changed_ms - back_ms)
    )
    return back_ms


def _mend_expectations(tx: Connection, back_ms: int, *, now_ms: int) -> None:
    """Move deadlines and leases back: what would last longer by the step ends as it was meant."""
    of = EXPECTATIONS.c
    pending = update(EXPECTATIONS).where(of.state.not_in(sorted(FINAL)), of.deadline_ms > now_ms)
    tx.execute(
        pending.values(deadline_ms=of.deadline_ms - back_ms, opened_ms=of.opened_ms - back_ms)
    )
    held = CONSUMPTIONS.c
    leased = update(CONSUMPTIONS).where(held.state == str(ConsumptionState.LEASED))
    tx.execute(leased.values(lease_ms=held.lease_ms - back_ms))


def _noted_and_now(tx: Connection, now_ms: int) -> tuple[ClockNote, int]:
    if tx.dialect.name != "postgresql":
        return read_note(tx), now_ms
    # Read behind the snapshot in which the noted time is seen.
    clock: ColumnElement[int] = literal_column(CLOCK_MS)
    *noted, read_ms = tx.execute(_NOTE.add_columns(clock)).one()
    return ClockNote(*noted), read_ms
