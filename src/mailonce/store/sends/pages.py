"""Queries over sends: one, pages of them, their attempts, and what people did to them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, literal, select, tuple_

from mailonce.core.query import SendFilter, other_spelling
from mailonce.core.sends.send_item import SendRow
from mailonce.core.sends.send_key import key_of_uuid
from mailonce.core.sends.send_lifecycle import ENDS, SendState
from mailonce.core.work.states import AttemptKind, State
from mailonce.store.filters import equal
from mailonce.store.schema.send_tables import SEND_ACTS, SEND_ATTEMPTS, SEND_CONTENTS, SENDS

STEPS_MAX = 200
MESSAGE_SENDS_MAX = 100
# Whoever has more than that needs no exact number.
UNKNOWN_COUNT_MAX = 10_000

_S = SENDS.c


class StoredSend(NamedTuple):
    """One recipient's mail."""

    key: bytes
    id: bytes
    workspace: str
    sender: str
    send_key: str
    send_state: SendState
    state: State
    lane: AttemptKind
    address: str
    name: str
    recipient: str
    stream: str
    template: str | None
    template_version: int | None
    cause_id: str | None
    message_id: str | None
    proof: bytes | None
    error: str | None
    made_ms: int
    due_ms: int
    deadline_ms: int
    done_ms: int | None
    flight: int
    flight_ms: int | None
    tries: int
    is_forced: bool
    is_resent: bool
    content: bytes


class StoredStep(NamedTuple):
    """One step of a send: a call, its repetition, a lookup, or a lease that was lost."""

    attempt: int
    at_ms: int
    latency_ms: int
    status: int | None
    error: str | None
    step: str | None
    outcome: str | None
    sender: str | None
    message_id: str | None


class StoredAct(NamedTuple):
    """What a person did to a send."""

    at_ms: int
    act: str
    by: str
    reason: str | None


class UnknownCount(NamedTuple):
    """How many sends of all workspaces are unknown, and how many of them need a person."""

    unknown: int
    need_person: int


class SendPosition(NamedTuple):
    """Where a page ends: a send's time and key."""

    made_ms: int
    key: bytes


_COLUMNS = [_S[name] for name in StoredSend._fields]
_STEP = [SEND_ATTEMPTS.c[name] for name in StoredStep._fields]
_ACT = [SEND_ACTS.c[name] for name in StoredAct._fields]


def of_row(row: SendRow) -> StoredSend:
    """Give a send as it stands right after it was submitted."""
    state = SendState(row.send_state)
    return StoredSend(
        key=row.key,
        id=row.id,
        workspace=row.workspace,
        sender=row.sender,
        send_key=row.send_key,
        send_state=state,
        state=State(row.state),
        lane=AttemptKind(row.lane),
        address=row.address,
        name=row.name,
        recipient=row.recipient,
        stream=row.stream,
        template=row.template,
        template_version=row.template_version,
        cause_id=row.cause_id,
        message_id=None,
        proof=None,
        error=row.error,
        made_ms=row.made_ms,
        due_ms=row.due_ms,
        deadline_ms=row.deadline_ms,
        done_ms=row.made_ms if state in ENDS else None,
        flight=0,
        flight_ms=None,
        tries=0,
        is_forced=row.is_forced,
        is_resent=False,
        content=row.content,
    )


def page(
    tx: Connection, workspace: str, where: SendFilter, *, below: SendPosition | None, limit: int
) -> list[StoredSend]:
    """List sends, newest first."""
    conditions = equal(
        SENDS,
        workspace=workspace,
        sender=where.sender,
        recipient=where.recipient,
        stream=where.stream,
        send_key=where.key,
        cause_id=where.cause_id,
    )
    if where.state is not None:
        # A literal: a partial index is not chosen for a parameter.
        conditions.append(_S.send_state == literal(int(where.state), literal_execute=True))
    if where.since_ms is not None:
        conditions.append(_S.made_ms >= where.since_ms)
    if where.until_ms is not None:
        conditions.append(_S.made_ms < where.until_ms)
    if below is not None:
        conditions.append(tuple_(_S.made_ms, _S.key) < tuple_(below.made_ms, below.key))
        conditions.append(_S.made_ms <= below.made_ms)
    query = select(*_COLUMNS).where(*conditions).order_by(_S.made_ms.desc(), _S.key.desc())
    return _rows(tx, query.limit(limit))


def get(tx: Connection, workspace: str, id_: bytes) -> StoredSend | None:
    rows = get_many(tx, workspace, [id_])
    return rows[0] if rows else None


def get_many(tx: Connection, workspace: str, ids: Sequence[bytes]) -> list[StoredSend]:
    """Find several sends of a workspace, in the order of their ids."""
    rows: list[StoredSend] = []
    for some in (ids[at : at + 500] for at in range(0, len(ids), 500)):
        rows += _rows(
            tx, select(*_COLUMNS).where(_S.id.in_(some), _S.workspace == workspace).order_by(_S.id)
        )
    return rows


def of_message(
    tx: Connection, workspace: str, message_id: str, *, recipient: str | None = None
) -> list[StoredSend]:
    """List the sends of a message id, the provider's or our own, by recipient."""
    spellings = [message_id, other_spelling(message_id)]
    # Ours begins with the UUID that is a send's key.
    key = key_of_uuid(message_id.removeprefix("<").partition("@")[0])
    is_known: ColumnElement[bool] = _S.message_id.in_(spellings)
    if key is not None:
        is_known |= _S.key == key
    query = select(*_COLUMNS).where(_S.workspace == workspace, is_known)
    if recipient is not None:
        query = query.where(_S.recipient == recipient)
    return _rows(tx, query.order_by(_S.recipient, _S.made_ms).limit(MESSAGE_SENDS_MAX))


def steps_of(tx: Connection, key: bytes) -> list[StoredStep]:
    """List the newest steps of a send, in their order."""
    query = select(*_STEP).where(SEND_ATTEMPTS.c.send == key)
    rows = tx.execute(query.order_by(SEND_ATTEMPTS.c.attempt.desc()).limit(STEPS_MAX)).all()
    return [StoredStep(*row) for row in reversed(rows)]


def acts_of(tx: Connection, key: bytes) -> list[StoredAct]:
    query = select(*_ACT).where(SEND_ACTS.c.send == key).order_by(SEND_ACTS.c.id)
    return [StoredAct(*row) for row in tx.execute(query.limit(STEPS_MAX))]


def content_of(tx: Connection, id_: bytes) -> bytes | None:
    """Give what is sent; None where it was forgotten."""
    body: bytes | None = tx.scalar(select(SEND_CONTENTS.c.body).where(SEND_CONTENTS.c.id == id_))
    return None if body is None else bytes(body)


def count_unsettled(tx: Connection, sender: str) -> int:
    """Count the sends of a sender that are neither settled nor given up."""
    query = select(func.count()).where(_S.sender == sender, _S.done_ms.is_(None))
    return tx.scalar(query) or 0


def count_unknown(tx: Connection) -> UnknownCount:
    """Count the unknown sends, up to `UNKNOWN_COUNT_MAX` of them."""
    some, dead = (
        select(literal(1)).where(_is_unknown(), *further).limit(UNKNOWN_COUNT_MAX).subquery()
        for further in ((), (_S.state == State.DEAD,))
    )
    counts = (tx.scalar(select(func.count()).select_from(rows)) or 0 for rows in (some, dead))
    return UnknownCount(*counts)


def need_person_by_workspace(tx: Connection) -> dict[str, int]:
    """Count the sends of each workspace that only a person can settle, up to so many in all."""
    some = select(_S.workspace).where(_is_unknown(), _S.state == State.DEAD)
    rows = some.limit(UNKNOWN_COUNT_MAX).subquery()
    query = select(rows.c.workspace, func.count()).group_by(rows.c.workspace)
    return {row[0]: row[1] for row in tx.execute(query)}


def _is_unknown() -> ColumnElement[bool]:
    # A literal: a partial index is not chosen for a parameter.
    return _S.send_state == literal(int(SendState.UNKNOWN), literal_execute=True)


def _rows(tx: Connection, query: Any) -> list[StoredSend]:
    return [
        StoredSend(*row)._replace(
            send_state=SendState(row.send_state),
            state=State(row.state),
            lane=AttemptKind(row.lane),
        )
        for row in tx.execute(query)
    ]
