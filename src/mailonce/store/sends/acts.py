"""What people do to a send: cancel it, say what became of it, have it sent again."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, update

from mailonce.core.sends import send_lifecycle
from mailonce.core.sends.send_lifecycle import ENDS, SendAct, SendState, work_state
from mailonce.store.schema.send_tables import SEND_ACTS, SENDS
from mailonce.store.sends.pages import StoredSend

_S = SENDS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonsAct:
    """Who does what to a send, and why."""

    id: bytes
    act: SendAct
    # The word under which it is kept.
    word: str
    by: str
    reason: str | None
    now_ms: int


def apply(
    tx: Connection, send: StoredSend, act: PersonsAct, *, deadline_ms: int | None = None
) -> bool:
    """Let an act change a send that still stands as it was read; say whether it did.

    `deadline_ms` is that of a send that begins anew.
    """
    state = send_lifecycle.move(send.send_state, act.act)
    if state is None:
        return False
    values: dict[str, object] = {
        "send_state": state,
        "state": work_state(state),
        "lease_ms": None,
        "done_ms": act.now_ms if state in ENDS else None,
        "error": None if state is SendState.ACCEPTED else act.reason,
    }
    if state is SendState.PENDING:
        values |= {"due_ms": act.now_ms, "deadline_ms": deadline_ms, "tries": 0}
    if send.send_state is SendState.UNKNOWN and act.act is SendAct.RESEND:
        values["is_resent"] = True
    changed = tx.execute(
        update(SENDS)
        .where(
            _S.key == send.key,
            _S.send_state == send.send_state,
            # It may have been sent, and answered, since it was read.
            _S.flight == send.flight,
        )
        .values(**values)
    )
    if not changed.rowcount:
        return False
    note(tx, send.key, act)
    return True


def note(tx: Connection, key: bytes, act: PersonsAct) -> None:
    """Keep who did what to a send."""
    tx.execute(
        insert(SEND_ACTS).values(
            send=key, id=act.id, at_ms=act.now_ms, act=act.word, by=act.by, reason=act.reason
        )
    )
