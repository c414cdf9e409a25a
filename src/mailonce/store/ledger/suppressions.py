"""Suppressions: all statements about an address, by providers and by people.

A register is one (stream, cause) of an address. A row with both `lifts` and `lifted` is a
person's lift; a provider's has `lifts` alone.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from mailonce.core.events.facts import Stamp
from mailonce.core.events.suppression import Cause, RecordedStatement
from mailonce.store.filters import equal
from mailonce.store.schema.tables import SUPPRESSIONS

# Most addresses have one row or two; a page that would need more than this ends earlier.
PAGE_ROWS_MAX = 5_000


class LiftTarget(NamedTuple):
    """One stream and cause of an address, which is lifted on its own."""

    stream: str
    cause: Cause


class AddressStatements(NamedTuple):
    """One statement about an address."""

    address: str
    register: LiftTarget
    statement: RecordedStatement
    said_ms: int
    by_person: bool
    # Of a person's lift: the key's id.
    by_key: str | None


_KEY = [SUPPRESSIONS.c[name] for name in ("address", "stream", "cause", "event")]
_REST = [
    SUPPRESSIONS.c[name] for name in ("lifts", "lifted", "stamp", "reason", "said_ms", "by_key")
]
_COLUMNS = _KEY + _REST


def page(
    tx: Connection, workspace: str, *, after: str | None, limit: int
) -> tuple[list[AddressStatements], bool]:
    """Read all statements about the next addresses, and whether there are more of them.

    An address is never split: where the rows run out in the middle of one, it is left for the
    next page, or read whole if it is alone.
    """
    query = select(*_COLUMNS).where(SUPPRESSIONS.c.workspace == workspace)
    if after is not None:
        query = query.where(SUPPRESSIONS.c.address > after)
    rows = tx.execute(query.order_by(*_KEY).limit(PAGE_ROWS_MAX + 1))
    statements = [_statement(*row) for row in rows]
    addresses = list(dict.fromkeys(row.address for row in statements))
    whole = addresses if len(statements) <= PAGE_ROWS_MAX else addresses[:-1]
    if not whole and addresses:
        return of_address(tx, workspace, addresses[0]), True
    kept = frozenset(whole[:limit])
    return [row for row in statements if row.address in kept], len(kept) < len(addresses)


def of_address(tx: Connection, workspace: str, address: str) -> list[AddressStatements]:
    query = select(*_COLUMNS).where(*equal(SUPPRESSIONS, workspace=workspace, address=address))
    rows = tx.execute(query.order_by(*_KEY))
    return [_statement(*row) for row in rows]


def suppress(
    tx: Connection,
    workspace: str,
    address: str,
    register: LiftTarget,
    *,
    id_: bytes,
    stamp: Stamp,
    reason: str | None,
    now_ms: int,
) -> None:
    """Insert a person's suppression."""
    place = _place(workspace, address, register)
    values = {"event": id_, "stamp": stamp, "reason": reason, "said_ms": now_ms}
    tx.execute(insert(SUPPRESSIONS).values(**place, **values, lifts=False, lifted=False))


def change_reason(
    tx: Connection, workspace: str, address: str, register: LiftTarget, *, id_: bytes, reason: str
) -> None:
    is_one = equal(SUPPRESSIONS, **_place(workspace, address, register), event=id_)
    tx.execute(update(SUPPRESSIONS).where(*is_one).values(reason=reason))


def lift(
    tx: Connection,
    workspace: str,
    address: str,
    registers: Iterable[LiftTarget],
    *,
    id_: bytes,
    stamp: Stamp,
    reason: str | None,
    by_key: str | None,
    now_ms: int,
) -> None:
    """Lift what is in force in these registers, and what arrives later with an earlier stamp.

    What is there is marked, so that it stays lifted even when it was stamped ahead of us.
    """
    values = {
        "event": id_, "stamp": stamp, "reason": reason, "said_ms": now_ms, "by_key": by_key,
    }  # fmt: skip
    for register in sorted(registers):
        place = _place(workspace, address, register)
        standing = (*equal(SUPPRESSIONS, **place), SUPPRESSIONS.c.lifts.is_(False))
        tx.execute(update(SUPPRESSIONS).where(*standing).values(lifted=True))
        tx.execute(insert(SUPPRESSIONS).values(**place, **values, lifts=True, lifted=True))


def _place(workspace: str, address: str, register: LiftTarget) -> dict[str, str]:
    return {"workspace": workspace, "address": address, **register._asdict()}


def _statement(
    address: str,
    stream: str,
    cause: str,
    event: bytes,
    lifts: bool,  # noqa: FBT001 - a row's columns, in their order
    lifted: bool,  # noqa: FBT001
    stamp: bytes | None,
    reason: str | None,
    said_ms: int,
    by_key: str | None,
) -> AddressStatements:
    by_person = (lifts and lifted) or (not lifts and cause == Cause.MANUAL)
    statement = RecordedStatement(
        lifts=lifts,
        stamp=None if stamp is None else Stamp(stamp),
        lifted=lifted and not lifts,
        reason=reason,
        event=event,
    )
    return AddressStatements(
        address, LiftTarget(stream, Cause(cause)), statement, said_ms, by_person, by_key
    )
