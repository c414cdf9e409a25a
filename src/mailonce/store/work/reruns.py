"""Reruns: what to go through again, and how far each got."""

from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, exists, insert, select, update

from mailonce.core.deliveries.rerun import Rerun, RerunFilter, RerunKind, RerunState
from mailonce.store.filters import equal
from mailonce.store.schema.tables import RERUNS

RUNNING_MAX = 100

_R = RERUNS.c


def insert_new(tx: Connection, rerun: Rerun) -> None:
    """Insert a rerun; any process may take it up."""
    values = {field.name: getattr(rerun, field.name) for field in fields(rerun)}
    values |= {"filter": rerun.filter.written(), "after_ms": values.pop("after_mark")}
    tx.execute(insert(RERUNS).values(**values))


def get(tx: Connection, workspace: str, kind: RerunKind, rerun_id: bytes) -> Rerun | None:
    query = select(RERUNS).where(_R.id == rerun_id, _R.workspace == workspace, _R.kind == str(kind))
    row = tx.execute(query).mappings().first()
    return None if row is None else _read(row)


def page(
    tx: Connection, workspace: str, kind: RerunKind, *, below: bytes | None, limit: int
) -> list[Rerun]:
    """List reruns of one kind, newest first."""
    query = select(RERUNS).where(_R.workspace == workspace, _R.kind == str(kind))
    if below is not None:
        query = query.where(_R.id < below)
    rows = tx.execute(query.order_by(_R.id.desc()).limit(limit))
    return [_read(row) for row in rows.mappings()]


HAS_RUNNING: Select[Any] = select(exists().where(_R.state == str(RerunState.RUNNING)))


def list_running(tx: Connection) -> list[Rerun]:
    """List what is to be done, oldest first."""
    query = select(RERUNS).where(_R.state == str(RerunState.RUNNING))
    rows = tx.execute(query.order_by(_R.id).limit(RUNNING_MAX))
    return [_read(row) for row in rows.mappings()]


def advance(
    tx: Connection,
    rerun: Rerun,
    *,
    after: tuple[int, bytes],
    done: int,
    finished: bool,
    now_ms: int,
) -> bool:
    """Move a rerun on, in the transaction of its slice.

    False: it was stopped, or another process moved it; then the slice must be undone as well.
    """
    state = RerunState.FINISHED if finished else RerunState.RUNNING
    place = {"after_ms": after[0], "after_key": after[1]}
    return _move(tx, rerun, **place, done=_R.done + done, state=str(state), changed_ms=now_ms)


def claim(tx: Connection, rerun: Rerun, *, now_ms: int) -> bool:
    """Take up a rerun that no process is running; say whether we were the first."""
    return _move(tx, rerun, changed_ms=now_ms)


def switch(tx: Connection, rerun_id: bytes, *, to: RerunState, was: RerunState) -> bool:
    """Stop or resume a rerun; say whether it was in the expected state."""
    is_one = equal(RERUNS, id=rerun_id, state=str(was))
    # Any process may take up a rerun with a time of zero at once.
    values = {"state": str(to), "changed_ms": 0}
    return tx.execute(update(RERUNS).where(*is_one).values(**values)).rowcount > 0


def _move(tx: Connection, rerun: Rerun, **values: Any) -> bool:
    """Change a rerun that runs, unless somebody moved it since it was read."""
    place = {"after_ms": rerun.after_mark, "after_key": rerun.after_key}
    as_read = equal(RERUNS, id=rerun.id, changed_ms=rerun.changed_ms, **place)
    is_running = _R.state == str(RerunState.RUNNING)
    return tx.execute(update(RERUNS).where(*as_read, is_running).values(**values)).rowcount > 0


def _read(row: RowMapping) -> Rerun:
    read = {
        "kind": RerunKind(row["kind"]),
        "filter": RerunFilter.read(row["filter"]),
        "state": RerunState(row["state"]),
        "after_mark": row["after_ms"],
    }
    rest = {name: row[name] for name in row if name != "after_ms"}
    return Rerun(**rest | read)
