"""Suppressions as users see them, and those that a person sets or lifts."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from typing_extensions import TypedDict

from mailonce.core.events.facts import Stamp, stamp_ms
from mailonce.core.events.suppression import ALL_STREAMS, Cause, RecordedStatement, standing
from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.errors import MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import suppressions
from mailonce.store.ledger.suppressions import AddressStatements, LiftTarget
from mailonce.views.moments import moment_of
from mailonce.views.paging import Page, PageQuery, cursor_of


class CauseJson(TypedDict):
    """Why an address is suppressed; `stream` is null where it holds for all mail."""

    cause: str
    stream: str | None
    reason: str | None
    suppressed_at: str | None
    event: str | None


class LiftedJson(TypedDict):
    """A cause that a lift is about."""

    cause: str
    stream: str | None


class LiftJson(TypedDict):
    """A lift, by a person or, where `event` names it, by an event such as a resubscribe."""

    lifted_at: str | None
    by: str
    reason: str | None
    event: str | None
    causes: list[LiftedJson]


class SuppressionJson(TypedDict):
    """Whether an address must not be sent mail, why, and which lifts there were."""

    address: str
    suppressed: bool
    causes: list[CauseJson]
    lifts: list[LiftJson]


async def list_suppressions(
    database: Database, workspace: str, page: PageQuery, *, suppressed: bool | None = None
) -> Page[SuppressionJson]:
    """List the addresses that were ever suppressed or lifted, by address.

    With `suppressed`, addresses of the page that do not match are left out, so that a page may
    be shorter than its limit, or empty, while more follow.
    """
    after = page.position(str, str)
    rows, more = await database.read(
        lambda tx: suppressions.page(tx, workspace, after=after, limit=page.limit)
    )
    data = [
        suppression_json(address, list(statements))
        for address, statements in groupby(rows, key=lambda row: row.address)
    ]
    following = cursor_of(rows[-1].address) if more and rows else None
    kept = [item for item in data if suppressed is None or item["suppressed"] is suppressed]
    return {"data": kept, "next": following}


async def show_suppression(database: Database, workspace: str, address: str) -> SuppressionJson:
    """Show one address; an unknown one is not suppressed."""
    rows = await database.read(lambda tx: suppressions.of_address(tx, workspace, address))
    return suppression_json(address, rows)


async def suppress(
    database: Database,
    workspace: str,
    address: str,
    *,
    reason: str | None,
    stream: str = ALL_STREAMS,
    new_id: bytes,
    now_ms: int,
) -> SuppressionJson:
    """Suppress an address by hand. Done twice it is one suppression, with the newer reason."""
    register = LiftTarget(stream, Cause.MANUAL)

    def work(tx: Tx) -> list[AddressStatements]:
        statements = [
            row.statement
            for row in suppressions.of_address(tx, workspace, address)
            if row.register == register
        ]
        stands = standing(statements)
        if stands is None:
            suppressions.suppress(
                tx,
                workspace,
                address,
                register,
                id_=new_id,
                stamp=_stamp(_after_lifts(statements, now_ms), new_id),
                reason=reason,
                now_ms=now_ms,
            )
        elif reason is not None and reason != stands.reason and stands.event is not None:
            suppressions.change_reason(
                tx, workspace, address, register, id_=stands.event, reason=reason
            )
        return suppressions.of_address(tx, workspace, address)

    return suppression_json(address, await database.write(work))


async def lift(
    database: Database,
    workspace: str,
    address: str,
    *,
    cause: Cause | None = None,
    stream: str | None = None,
    reason: str | None = None,
    new_id: bytes,
    now_ms: int,
) -> SuppressionJson:
    """Lift what suppresses an address: every cause and stream, or those that are named.

    The lift covers what it has seen, even when that was stamped ahead, and what arrives later
    with an earlier stamp. It stays visible.

    Raises: MissingError where nothing was ever said about the address.
    """

    def work(tx: Tx) -> list[AddressStatements]:
        statements = suppressions.of_address(tx, workspace, address)
        if not statements:
            raise MissingError("no suppression for this address; see GET /v1/suppressions")
        registers = {row.register for row in statements}
        # Causes without a row, too: an event with an earlier stamp may still be on its way.
        registers |= {LiftTarget(stream or ALL_STREAMS, cause_) for cause_ in Cause}
        suppressions.lift(
            tx,
            workspace,
            address,
            [
                register
                for register in registers
                if cause in {None, register.cause} and stream in {None, register.stream}
            ],
            id_=new_id,
            stamp=_stamp(now_ms, new_id),
            reason=reason,
            now_ms=now_ms,
        )
        return suppressions.of_address(tx, workspace, address)

    return suppression_json(address, await database.write(work))


def suppression_json(address: str, rows: Sequence[AddressStatements]) -> SuppressionJson:
    """Derive the suppressions in force from all statements."""
    registers: dict[LiftTarget, list[AddressStatements]] = {}
    for row in rows:
        registers.setdefault(row.register, []).append(row)
    causes = [
        _cause_json(register, stands, statements)
        for register, statements in sorted(registers.items())
        if (stands := standing([row.statement for row in statements])) is not None
    ]
    return {
        "address": address,
        "suppressed": bool(causes),
        "causes": causes,
        "lifts": _lifts_json(row for row in rows if row.statement.lifts),
    }


def _cause_json(
    register: LiftTarget, stands: RecordedStatement, rows: Iterable[AddressStatements]
) -> CauseJson:
    by_person = any(row.by_person for row in rows if row.statement is stands)
    named = None if by_person or stands.event is None else public("evt", stands.event)
    return {
        "cause": register.cause.value,
        "stream": register.stream or None,
        "reason": stands.reason,
        "suppressed_at": moment_of(stands.stamp),
        "event": named,
    }


def _lifts_json(rows: Iterable[AddressStatements]) -> list[LiftJson]:
    """List each lift once, newest first: a person's has a row in every register it covers."""
    lifts: dict[bytes, list[AddressStatements]] = {}
    for row in rows:
        lifts.setdefault(row.statement.event or b"", []).append(row)
    newest_first = sorted(lifts.items(), key=lambda item: (-item[1][0].said_ms, item[0]))
    return [_lift_json(id_, statements) for id_, statements in newest_first]


def _lift_json(id_: bytes, rows: Sequence[AddressStatements]) -> LiftJson:
    lift = rows[0]
    causes: list[LiftedJson] = [
        {"cause": row.register.cause.value, "stream": row.register.stream or None} for row in rows
    ]
    return {
        "lifted_at": moment(lift.said_ms) if lift.by_person else moment_of(lift.statement.stamp),
        "by": "person" if lift.by_person else "event",
        "reason": lift.statement.reason,
        "event": None if lift.by_person else public("evt", id_),
        "causes": causes,
    }


def _after_lifts(statements: Iterable[RecordedStatement], now_ms: int) -> int:
    """Give a time that no known lift is after: another door's clock may run ahead of ours."""
    lifted = (stamp_ms(row.stamp) for row in statements if row.lifts and row.stamp is not None)
    return max([now_ms, *lifted])


def _stamp(now_ms: int, id_: bytes) -> Stamp:
    return Stamp(now_ms.to_bytes(8, "big") + id_[-8:])
