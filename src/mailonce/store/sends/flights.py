"""Flights: which sends are about to leave, and what became of those that did, in a transaction.

A send is marked as in flight in a transaction of its own, right before its first byte, where its
lease still stands. How a call ended is written where the send still stands as it was read, so that
a webhook, a person and two workers that come at once never undo each other; who was overtaken
reads again. The attempt is noted in any case. PostgreSQL does the same by single statements
(`flight_statements.py`); only what is rare comes here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, text, update

from mailonce.core.sends.send_decision import SendChange
from mailonce.core.sends.send_lifecycle import (
    ENDS,
    MOVES,
    Flight,
    SendAct,
    SendState,
    work_state,
)
from mailonce.core.work.states import State
from mailonce.store.dialects.upsert import insert_or_replace
from mailonce.store.filters import is_pair
from mailonce.store.schema.send_tables import SEND_ATTEMPTS, SEND_CONTENTS, SENDS
from mailonce.store.sends.known import SuppressedStreams, suppressed

_S = SENDS.c
_NOT_SUPPRESSED = SuppressedStreams({})


class SendJob(NamedTuple):
    """All that a step of a send needs to know."""

    key: bytes
    id: bytes
    workspace: str
    sender: str
    state: int
    token: int
    send_state: int
    flight: int
    tries: int
    is_repeat: bool
    flight_ms: int | None
    deadline_ms: int
    recipient: str
    address: str
    name: str
    stream: str
    is_forced: bool
    # The frozen request of a call that may be repeated; what is sent, None where it was forgotten.
    body: bytes | None
    content: bytes | None

    @property
    def as_flight(self) -> Flight:
        """What the ledger knows of its calls."""
        return Flight(
            state=SendState(self.send_state),
            attempt=self.flight,
            tries=self.tries,
            is_repeat=bool(self.is_repeat),
        )


class FlightMark(NamedTuple):
    """A send whose first byte is next, under the lease of this token."""

    key: bytes
    token: int
    act: SendAct
    workspace: str
    recipient: str
    stream: str
    is_forced: bool
    # The request to keep, where its provider lets the same call be repeated.
    frozen: bytes | None


class SendEnd(NamedTuple):
    """What a step changes of a send, as the send was read."""

    job: SendJob
    change: SendChange


class SendStep(NamedTuple):
    """One step of a send, as it is noted: a call, its repetition or a lookup."""

    send: bytes
    attempt: int
    at_ms: int
    latency_ms: int
    status: int | None
    error: str | None
    step: str
    outcome: str
    sender: str
    message_id: str | None


_JOB = [_S[name] for name in SendJob._fields if name != "content"]


def read_jobs(tx: Connection, keys: Sequence[bytes]) -> dict[bytes, SendJob]:
    """Read sends by their keys, with what they send."""
    query = select(*_JOB, SEND_CONTENTS.c.body.label("content")).select_from(
        SENDS.outerjoin(SEND_CONTENTS, SEND_CONTENTS.c.id == _S.content)
    )
    rows = tx.execute(query.where(_S.key.in_(keys))).all()
    return {bytes(row.key): SendJob._make(row) for row in rows}


def begin(
    tx: Connection, marks: Sequence[FlightMark], *, now_ms: int
) -> tuple[set[bytes], dict[bytes, str]]:
    """Mark sends as in flight; give the keys of those, and the causes of those suppressed.

    A send in neither has lost its lease, or was cancelled or settled meanwhile: nothing of it may
    leave. Suppressions are read in the transaction that marks.
    """
    wanted = [mark for mark in marks if not mark.is_forced]
    streams = suppressed(tx, [(mark.workspace, mark.recipient) for mark in wanted])
    causes: dict[bytes, str] = {}
    for mark in wanted:
        of_address = streams.get((mark.workspace, mark.recipient), _NOT_SUPPRESSED)
        cause = of_address.cause_for(mark.stream)
        if cause is not None and mark.act is SendAct.BEGIN:
            causes[mark.key] = cause
    flying: set[bytes] = set()
    for act in (SendAct.BEGIN, SendAct.REPEAT):
        some = [mark for mark in marks if mark.act is act and mark.key not in causes]
        if some:
            flying |= _mark(tx, act, some, now_ms)
    _keep_frozen(tx, [mark for mark in marks if mark.key in flying and mark.frozen is not None])
    for cause in sorted({*causes.values()}):
        keys = [mark for mark in wanted if causes.get(mark.key) == cause]
        stays = _suppress(tx, keys, cause, now_ms)
        for mark in keys:
            if mark.key not in stays:
                del causes[mark.key]
    return flying, causes


def end(
    tx: Connection, ends: Sequence[SendEnd], steps: Sequence[SendStep], *, now_ms: int
) -> set[bytes]:
    """Write what steps change, and note them; give the keys of sends that stood as they were read.

    The others were changed by somebody else: read them again, and decide again.
    """
    stood = _update(tx, [change_values(one, now_ms) for one in ends]) if ends else set()
    if steps:
        rows = [step._asdict() for step in steps]
        # A step whose lease was lost is noted already, and is told more of now.
        insert_or_replace(tx, SEND_ATTEMPTS, rows)
    return stood


def _mark(tx: Connection, act: SendAct, marks: Sequence[FlightMark], now_ms: int) -> set[bytes]:
    [before] = [state for state, of in MOVES if of is act]
    values: dict[str, Any] = {
        "send_state": MOVES[before, act],
        "flight": _S.attempts,
        "is_repeat": act is SendAct.REPEAT,
    }
    if act is SendAct.BEGIN:
        # A repetition is as old as the call that it repeats.
        values |= {"flight_ms": now_ms, "tries": _S.tries + 1, "body": None}
    pairs = [(mark.key, mark.token) for mark in marks]
    statement = (
        update(SENDS)
        .where(
            is_pair(_S.key, _S.token, pairs),
            _S.state == State.LEASED,
            _S.send_state == before,
            _S.lease_ms > now_ms,
        )
        .values(**values)
        .returning(_S.key)
    )
    return {bytes(key) for key in tx.scalars(statement)}


def _keep_frozen(tx: Connection, marks: Sequence[FlightMark]) -> None:
    if marks:
        statement = update(SENDS).where(_S.key == bindparam("of")).values(body=bindparam("bytes"))
        tx.execute(statement, [{"of": mark.key, "bytes": mark.frozen} for mark in marks])


def _suppress(tx: Connection, marks: Sequence[FlightMark], cause: str, now_ms: int) -> set[bytes]:
    statement = (
        update(SENDS)
        .where(
            is_pair(_S.key, _S.token, [(mark.key, mark.token) for mark in marks]),
            _S.state == State.LEASED,
            _S.send_state == SendState.PENDING,
        )
        .values(
            send_state=MOVES[SendState.PENDING, SendAct.SUPPRESS],
            state=State.DONE,
            lease_ms=None,
            done_ms=now_ms,
            error=f"suppressed: {cause}",
        )
        .returning(_S.key)
    )
    return {bytes(key) for key in tx.scalars(statement)}


def change_values(one: SendEnd, now_ms: int) -> dict[str, Any]:
    """Give the values of a row after a step, and how it must stand for them to be written."""
    job, change = one
    deadline_ms = job.deadline_ms
    if change.deadline_in_ms is not None:
        deadline_ms = now_ms + change.deadline_in_ms
    return {
        "key": job.key,
        "was_token": job.token,
        "was_state": job.state,
        "was_send_state": job.send_state,
        "was_flight": job.flight,
        "send_state": change.state,
        "state": State.DEAD if change.waits_for_person else work_state(change.state),
        "due_ms": now_ms + change.due_in_ms,
        "deadline_ms": deadline_ms,
        "done_ms": now_ms if change.state in ENDS else None,
        "sender": change.sender or job.sender,
        "tries": job.tries if change.tries is None else change.tries,
        "message_id": change.message_id,
        "error": None if change.state is SendState.ACCEPTED else change.reason,
        "is_resent": change.is_resent,
    }


# The columns that a step may change, with PostgreSQL's types, and what they become: `v` has the new
# values. What a step does not say stays as it is.
_CHANGES: Mapping[str, tuple[str, str]] = {
    "send_state": ("smallint", "v.send_state"),
    "state": ("smallint", "v.state"),
    "due_ms": ("bigint", "v.due_ms"),
    "deadline_ms": ("bigint", "v.deadline_ms"),
    "done_ms": ("bigint", "v.done_ms"),
    "sender": ("text", "v.sender"),
    "tries": ("integer", "v.tries"),
    "message_id": ("text", "coalesce(s.message_id, v.message_id)"),
    "error": ("text", "v.error"),
    "is_resent": ("boolean", "s.is_resent OR v.is_resent"),
}
_AS_READ = {
    "token": "bigint",
    "state": "smallint",
    "send_state": "smallint",
    "flight": "integer",
}
SET = ", ".join(f"{name} = {what}" for name, (_, what) in _CHANGES.items()) + ", lease_ms = NULL"
STANDS = " AND ".join(f"s.{name} = v.was_{name}" for name in _AS_READ)
# The values of a change, with PostgreSQL's types.
CHANGE_TYPES: Mapping[str, str] = {
    "key": "bytea",
    **{f"was_{name}": type_ for name, type_ in _AS_READ.items()},
    **{name: type_ for name, (type_, _) in _CHANGES.items()},
}
_UPDATE_SQLITE = f"""
UPDATE sends AS s SET {SET.replace("v.", ":")} WHERE s.key = :key AND {STANDS.replace("v.", ":")}
RETURNING key
"""  # noqa: S608


def _update(tx: Connection, rows: Sequence[dict[str, Any]]) -> set[bytes]:
    changed = (tx.scalars(text(_UPDATE_SQLITE), row).all() for row in rows)
    return {bytes(key) for some in changed for key in some}
