"""Forget expectations: their values with the inbox, the rest after a long time."""

from sqlalchemy import Connection, delete, select, update

from mailonce.core.expectations.expectation import FINAL, ExpectationState
from mailonce.core.expectations.settle import StateReason
from mailonce.core.ids import first_id
from mailonce.store.expectations import consumptions
from mailonce.store.schema.expectation_tables import (
    ARTIFACTS,
    CONSUMPTION_ACTS,
    CONSUMPTIONS,
    EXPECTATION_MAILS,
    EXPECTATIONS,
)

_E, _X, _A, _C = EXPECTATIONS.c, EXPECTATION_MAILS.c, ARTIFACTS.c, CONSUMPTIONS.c


def forget_inbox(tx: Connection, inbox: str) -> None:
    """End the expectations of a deleted inbox, and delete values and verdicts.

    That something was consumed stays known: who had it, and when.
    """
    rows = tx.execute(select(_E.id, _E.workspace, _E.subject, _E.state).where(_E.inbox == inbox))
    known = rows.all()
    if not known:
        return
    ids = [row.id for row in known]
    ended = {"state": str(ExpectationState.EXPIRED), "reason": str(StateReason.INBOX_DELETED)}
    is_open = _E.state.not_in([*sorted(FINAL), str(ExpectationState.CONSUMED)])
    tx.execute(update(EXPECTATIONS).where(_E.id.in_(ids), is_open).values(**ended))
    tx.execute(delete(EXPECTATION_MAILS).where(_X.expectation.in_(ids)))
    # A subject of its own may have the same value from another inbox: what nobody else refers to
    # is that of subjects which only these expectations had.
    for workspace, subject in {(row.workspace, row.subject) for row in known}:
        others = select(_E.id).where(
            _E.workspace == workspace, _E.subject == subject, _E.inbox != inbox
        )
        if tx.execute(others.limit(1)).first() is None:
            own = (_A.workspace == workspace, _A.subject == subject)
            tx.execute(update(ARTIFACTS).where(*own).values(sealed=None))


def forget(tx: Connection, *, before_ms: int, now_ms: int, most: int) -> int:
    """Delete what is older than the ledger; say how many expectations that were."""
    consumptions.forget_child_keys(tx, before_ms=now_ms)
    old = list(tx.scalars(select(_E.id).where(_E.id < first_id(before_ms)).limit(most)))
    if old:
        used = select(_C.id).where(_C.expectation.in_(old))
        of = CONSUMPTION_ACTS.c
        tx.execute(delete(CONSUMPTION_ACTS).where(of.consumption.in_(used)))
        tx.execute(delete(CONSUMPTIONS).where(_C.expectation.in_(old)))
        tx.execute(delete(EXPECTATION_MAILS).where(_X.expectation.in_(old)))
        tx.execute(delete(EXPECTATIONS).where(_E.id.in_(old)))
    gone = select(_A.id).where(
        _A.id < first_id(before_ms), ~select(_C.id).where(_C.artifact == _A.id).exists()
    )
    doomed = list(tx.scalars(gone.limit(most)))
    if doomed:
        tx.execute(delete(ARTIFACTS).where(_A.id.in_(doomed)))
    return len(old)
