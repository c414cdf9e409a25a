"""Reruns: what to go through again, and how far each got."""

from sqlalchemy import ColumnElement, Connection, Row, insert, select, update

from mailonce.core.deliveries.rerun import Rerun, RerunFilter, RerunKind, RerunState
from mailonce.store.schema.tables import RERUNS

RUNNING_MAX = 100

_R = RERUNS.c


def insert_new(tx: Connection, rerun: Rerun) -> None:
    """Insert a rerun; any process may take it up."""
    tx.execute(
        insert(RERUNS).values(
            id=rerun.id,
            workspace=rerun.workspace,
            kind=str(rerun.kind),
            filter=rerun.filter.written(),
            state=str(rerun.state),
            after_ms=rerun.after_mark,
            after_key=rerun.after_key,
            total=rerun.total,
            done=rerun.done,
            created_ms=rerun.created_ms,
            changed_ms=rerun.changed_ms,
        )
    )


def get(tx: Connection, workspace: str, kind: RerunKind, rerun_id: bytes) -> Rerun | None:
    query = select(RERUNS).where(_R.id == rerun_id, _R.workspace == workspace, _R.kind == str(kind))
    row = tx.execute(query).first()
    return None if row is None else _read(row)


def page(
    tx: Connection, workspace: str, kind: RerunKind, *, below: bytes | None, limit: int
) -> list[Rerun]:
    """List reruns of one kind, newest first."""
    query = select(RERUNS).where(_R.workspace == workspace, _R.kind == str(kind))
    if below is not None:
        query = query.where(_R.id < below)
    return [_read(row) for row in tx.execute(query.order_by(_R.id.desc()).limit(limit))]


def list_running(tx: Connection) -> list[Rerun]:
    """List what is to be done, oldest first."""
    query = select(RERUNS).where(_R.state == str(RerunState.RUNNING))
    return [_read(row) for row in tx.execute(query.order_by(_R.id).limit(RUNNING_MAX))]


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
    changed = tx.execute(
        update(RERUNS)
        .where(
            _R.id == rerun.id,
            _R.state == str(RerunState.RUNNING),
            _R.after_ms == rerun.after_mark,
            _R.after_key == rerun.after_key,
            _R.changed_ms == rerun.changed_ms,
        )
        .values(
            after_ms=after[0],
            after_key=after[1],
            done=_R.done + done,
            state=str(state),
            changed_ms=now_ms,
        )
    )
    return changed.rowcount > 0


def claim(tx: Connection, rerun: Rerun, *, now_ms: int) -> bool:
    """Take up a rerun that no process is running; say whether we were the first."""
    changed = tx.execute(
        update(RERUNS)
        .where(
            _R.id == rerun.id,
            _R.state == str(RerunState.RUNNING),
            _R.changed_ms == rerun.changed_ms,
        )
        .values(changed_ms=now_ms)
    )
    return changed.rowcount > 0


def switch(tx: Connection, rerun_id: bytes, *, to: RerunState, was: RerunState) -> bool:
    """Stop or resume a rerun; say whether it was in the expected state."""
    where: list[ColumnElement[bool]] = [_R.id == rerun_id, _R.state == str(was)]
    # Any process may take up a rerun with a time of zero at once.
    return tx.execute(update(RERUNS).where(*where).values(state=str(to), changed_ms=0)).rowcount > 0


def _read(row: Row[*tuple[object, ...]]) -> Rerun:
    columns = row._mapping  # noqa: SLF001 - SQLAlchemy's public name for it
    return Rerun(
        id=bytes(columns["id"]),
        workspace=columns["workspace"],
        kind=RerunKind(columns["kind"]),
        filter=RerunFilter.read(bytes(columns["filter"])),
        state=RerunState(columns["state"]),
        after_mark=columns["after_ms"],
        after_key=bytes(columns["after_key"]),
        total=columns["total"],
        done=columns["done"],
        created_ms=columns["created_ms"],
        changed_ms=columns["changed_ms"],
    )
