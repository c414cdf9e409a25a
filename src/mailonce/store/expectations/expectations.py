"""Expectations: opened under the lock of their inbox, settled, and found again."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    exists,
    insert,
    literal_column,
    select,
    update,
)

from mailonce.core.expectations.expectation import (
    FINAL,
    Expectation,
    ExpectationPolicy,
    ExpectationState,
)
from mailonce.core.work.states import State
from mailonce.store.dialects.row_locks import lock_rows
from mailonce.store.schema.expectation_tables import EXPECTATIONS
from mailonce.store.schema.mail_tables import INBOXES, MAILS

_E = EXPECTATIONS.c
COLUMNS = [column for column in EXPECTATIONS.c if column.name in Expectation.__struct_fields__]
# Written into the statements, or PostgreSQL would not see that a partial index fits.
_IS_PENDING: ColumnElement[bool] = _E.state == literal_column(f"'{ExpectationState.PENDING}'")
_IS_FINAL: ColumnElement[bool] = _E.state.in_(
    [literal_column(f"'{state}'") for state in sorted(FINAL)]
)
# Mail behind the watermark was not read yet, and was not given up.
IS_UNREAD_MAIL: tuple[ColumnElement[bool], ...] = (
    MAILS.c.inbox == _E.inbox,
    MAILS.c.seq > _E.watermark,
    MAILS.c.message.is_(None),
    MAILS.c.state != State.DEAD,
)
IS_OVERDUE: tuple[ColumnElement[bool], ...] = (
    _IS_PENDING,
    _E.deadline_ms < bindparam("now_ms", type_=BigInteger),
    ~exists().where(*IS_UNREAD_MAIL),
)
IS_UNREPORTED: tuple[ColumnElement[bool], ...] = (_IS_FINAL, ~_E.reported)


class RequestedExpectation(NamedTuple):
    """An expectation, and the fingerprint of the request that opened it."""

    expectation: Expectation
    fingerprint: bytes


class InboxNow(NamedTuple):
    """An inbox at the moment when its row is locked."""

    seq: int
    address: str
    expires_ms: int | None


def lock_inbox(tx: Connection, workspace: str, inbox: str) -> InboxNow | None:
    """Keep mail of an inbox from being numbered until the end of the transaction.

    So what comes after it has a higher number than what this reads.
    """
    lock_rows(tx, INBOXES, {(inbox,)})
    of = INBOXES.c
    query = select(of.seq, of.address, of.expires_ms)
    row = tx.execute(query.where(of.workspace == workspace, of.id == inbox)).first()
    return None if row is None else InboxNow(*row)


def put(
    tx: Connection,
    expectation: Expectation,
    *,
    request_key: bytes | None = None,
    fingerprint: bytes | None = None,
) -> None:
    """Insert an expectation."""
    fields = {name: getattr(expectation, name) for name in expectation.__struct_fields__}
    fields |= {
        "policy": msgspec.json.encode(expectation.policy),
        "state": str(expectation.state),
        "reported": False,
        "request_key": request_key,
        "request_fingerprint": fingerprint,
    }
    tx.execute(insert(EXPECTATIONS).values(**fields))


def of_request_key(tx: Connection, workspace: str, key: bytes) -> RequestedExpectation | None:
    """Find the expectation that an earlier request with this key opened."""
    query = select(*COLUMNS, _E.request_fingerprint)
    row = tx.execute(query.where(_E.workspace == workspace, _E.request_key == key)).mappings()
    first = row.first()
    if first is None:
        return None
    return RequestedExpectation(read(first), bytes(first["request_fingerprint"]))


def get(tx: Connection, workspace: str, id_: bytes) -> Expectation | None:
    query = select(*COLUMNS).where(_E.workspace == workspace, _E.id == id_)
    row = tx.execute(query).mappings().first()
    return None if row is None else read(row)


def lock(tx: Connection, id_: bytes) -> None:
    """Let one transaction at a time judge mail for an expectation, or consume from it."""
    lock_rows(tx, EXPECTATIONS, {(id_,)})


def open_of_inbox(tx: Connection, inbox: str) -> list[Expectation]:
    """List the expectations of an inbox that can still change, the oldest first."""
    query = select(*COLUMNS).where(_E.inbox == inbox, _E.state.not_in(sorted(FINAL)))
    return [read(row) for row in tx.execute(query.order_by(_E.id)).mappings()]


def count_open(tx: Connection, inbox: str, *, most: int) -> int:
    """Count the expectations of an inbox that can still change, up to `most`."""
    query = select(_E.id).where(_E.inbox == inbox, _E.state.not_in(sorted(FINAL)))
    return len(tx.execute(query.limit(most)).all())


def page(
    tx: Connection,
    workspace: str,
    *,
    after: bytes | None,
    limit: int,
    inbox: str | None = None,
    state: ExpectationState | None = None,
) -> list[Expectation]:
    """List expectations, the newest first."""
    query = select(*COLUMNS).where(_E.workspace == workspace)
    if after is not None:
        query = query.where(_E.id < after)
    if inbox is not None:
        query = query.where(_E.inbox == inbox)
    if state is not None:
        query = query.where(_E.state == str(state))
    return [read(row) for row in tx.execute(query.order_by(_E.id.desc()).limit(limit)).mappings()]


def settle(tx: Connection, id_: bytes, state: ExpectationState, reason: str) -> None:
    """Keep the state of an expectation that is locked."""
    values = {"state": str(state), "reason": reason}
    tx.execute(update(EXPECTATIONS).where(_E.id == id_).values(**values))


def grant(tx: Connection, id_: bytes, *, granted: int, now_ms: int) -> None:
    """Keep that a resend was granted; the row is locked."""
    values = {"granted": granted, "granted_ms": now_ms}
    tx.execute(update(EXPECTATIONS).where(_E.id == id_).values(**values))


def narrow(tx: Connection, expectation: Expectation) -> None:
    """Keep a narrower policy, deadline and budget; the row is locked."""
    tx.execute(
        update(EXPECTATIONS)
        .where(_E.id == expectation.id)
        .values(
            policy=msgspec.json.encode(expectation.policy),
            deadline_ms=expectation.deadline_ms,
            resends=expectation.resends,
        )
    )


def overdue(tx: Connection, *, now_ms: int, most: int) -> list[Expectation]:
    """Find pending expectations whose deadline is over, and whose inbox has nothing left to read.

    Mail that came in time may be read after the deadline.
    """
    query = select(*COLUMNS).where(*IS_OVERDUE).order_by(_E.deadline_ms).limit(most)
    return [read(row) for row in tx.execute(query, {"now_ms": now_ms}).mappings()]


def has_unread_mail(tx: Connection, expectation: Expectation) -> bool:
    """Say whether mail behind the watermark was not read yet."""
    of = MAILS.c
    query = select(of.key).where(
        of.inbox == expectation.inbox,
        of.seq > expectation.watermark,
        of.message.is_(None),
        of.state != State.DEAD,
    )
    return tx.execute(query.limit(1)).first() is not None


def unreported(tx: Connection, *, most: int) -> list[Expectation]:
    """Find expectations that ended, and whose end is not recorded as an event yet."""
    query = select(*COLUMNS).where(*IS_UNREPORTED)
    return [read(row) for row in tx.execute(query.order_by(_E.id).limit(most)).mappings()]


def mark_reported(tx: Connection, ids: Sequence[bytes]) -> None:
    tx.execute(update(EXPECTATIONS).where(_E.id.in_(ids)).values(reported=True))


def changed(tx: Connection, ids: Sequence[bytes]) -> set[bytes]:
    """Say which of these expectations are not pending any more."""
    query = select(_E.id).where(_E.id.in_(ids), _E.state != str(ExpectationState.PENDING))
    return {bytes(id_) for id_ in tx.scalars(query)}


def read(row: Mapping[Any, Any]) -> Expectation:
    """Read the row of an expectation."""
    fields = {name: row[name] for name in Expectation.__struct_fields__}
    fields["id"] = bytes(row["id"])
    fields["policy"] = msgspec.json.decode(bytes(row["policy"]), type=ExpectationPolicy)
    fields["state"] = ExpectationState(row["state"])
    return Expectation(**fields)
