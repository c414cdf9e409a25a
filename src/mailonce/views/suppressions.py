"""Suppressions as users see them, and those that a person sets or lifts."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from typing_extensions import TypedDict

from mailonce.core.events.facts import Stamp, stamp_ms
from mailonce.core.events.suppression import ALL_STREAMS, Cause, RecordedStatement, standing
from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.errors import MissingError
from mailonce.store.configuration import keys
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import suppressions
from mailonce.store.ledger.suppressions import AddressStatements, LiftTarget
from mailonce.views.moments import moment_of
from mailonce.views.paging import Page, PageQuery, cursor_of

_Registers = Mapping[LiftTarget, Sequence[AddressStatements]]


class CauseJson(TypedDict):
    """Why an address is, or before a lift was, suppressed; `stream` is null for all mail.

    `suppressed_at` is the event's own time, or that of its receipt where it tells none.
    """

    cause: str
    stream: str | None
    reason: str | None
    suppressed_at: str | None
    event: str | None


class LiftJson(TypedDict):
    """A lift, by a person or, where `event` names it, by an event such as a resubscribe."""

    lifted_at: str | None
    by: str
    # Of a person: the id of the key and its name, or `local:USER` for a command on the server.
    by_key: str | None
    by_key_name: str | None
    reason: str | None
    event: str | None
    causes: list[CauseJson]


class SuppressionJson(TypedDict):
    """Whether an address must not be sent mail, why, and which lifts there were."""

    address: str
    suppressed: bool
    causes: list[CauseJson]
    lifts: list[LiftJson]


async def list_suppressions(
    database: Database,
    workspace: str,
    page: PageQuery,
    *,
    suppressed: bool | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Page[SuppressionJson]:
    """List the addresses that were ever suppressed or lifted, by address.

    Times speak of when the address was suppressed or, where it is not, lifted, the end excluded.
    With a filter, addresses of the page that do not match are left out, so that a page may
    be shorter than its limit, or empty, while more follow.
    """
    after = page.position(str, str)

    def work(tx: Tx) -> tuple[list[AddressStatements], bool, dict[str, str]]:
        rows, more = suppressions.page(tx, workspace, after=after, limit=page.limit)
        return rows, more, _key_names(tx, workspace, rows)

    rows, more, names = await database.read(work)
    data = [
        suppression_json(address, list(statements), names)
        for address, statements in groupby(rows, key=lambda row: row.address)
    ]
    following = cursor_of(rows[-1].address) if more and rows else None
    if suppressed is not None:
        data = [item for item in data if item["suppressed"] is suppressed]
    if (first := moment(since_ms)) is not None:
        data = [item for item in data if max(_times(item), default="") >= first]
    if (end := moment(until_ms)) is not None:
        data = [item for item in data if min(_times(item), default="") < end]
    return {"data": data, "next": following}


def _times(item: SuppressionJson) -> list[str]:
    if item["suppressed"]:
        return [cause["suppressed_at"] or "" for cause in item["causes"]]
    return [lift["lifted_at"] or "" for lift in item["lifts"]]


async def show_suppression(database: Database, workspace: str, address: str) -> SuppressionJson:
    """Show one address; an unknown one is not suppressed."""
    return await database.read(lambda tx: _shown(tx, workspace, address))


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

    def work(tx: Tx) -> SuppressionJson:
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
        return _shown(tx, workspace, address)

    return await database.write(work)


async def lift(
    database: Database,
    workspace: str,
    address: str,
    *,
    cause: Cause | None = None,
    stream: str | None = None,
    reason: str | None = None,
    by_key: str | None = None,
    new_id: bytes,
    now_ms: int,
) -> SuppressionJson:
    """Lift what suppresses an address: every cause and stream, or those that are named.

    The lift covers what it has seen, even when that was stamped ahead, and what arrives later
    with an earlier stamp. It stays visible.

    Raises: MissingError where nothing was ever said about the address.
    """

    def work(tx: Tx) -> SuppressionJson:
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
            by_key=by_key,
            # After all that it ends, whose time may be another clock's.
            now_ms=max(now_ms, *(row.said_ms for row in statements)),
        )
        return _shown(tx, workspace, address)

    return await database.write(work)


def suppression_json(
    address: str, rows: Sequence[AddressStatements], key_names: Mapping[str, str]
) -> SuppressionJson:
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
        "lifts": _lifts_json(registers, key_names),
    }


def _shown(tx: Tx, workspace: str, address: str) -> SuppressionJson:
    rows = suppressions.of_address(tx, workspace, address)
    return suppression_json(address, rows, _key_names(tx, workspace, rows))


def _key_names(tx: Tx, workspace: str, rows: Iterable[AddressStatements]) -> dict[str, str]:
    return keys.names_of(tx, workspace, (row.by_key for row in rows))


def _cause_json(
    register: LiftTarget, stands: RecordedStatement, rows: Iterable[AddressStatements]
) -> CauseJson:
    source = next(row for row in rows if row.statement is stands)
    named = None if source.by_person or stands.event is None else public("evt", stands.event)
    return {
        "cause": register.cause.value,
        "stream": register.stream or None,
        "reason": stands.reason,
        "suppressed_at": moment_of(stands.stamp) or moment(source.said_ms),
        "event": named,
    }


def _lifts_json(registers: _Registers, key_names: Mapping[str, str]) -> list[LiftJson]:
    """List each lift once, newest first: a person's has a row in every register it covers."""
    lifts: dict[bytes, list[AddressStatements]] = {}
    for _, rows in sorted(registers.items()):
        for row in rows:
            if row.statement.lifts:
                lifts.setdefault(row.statement.event or b"", []).append(row)
    newest_first = sorted(lifts.items(), key=lambda item: (-item[1][0].said_ms, item[0]))
    return [_lift_json(id_, rows, registers, key_names) for id_, rows in newest_first]


def _lift_json(
    id_: bytes,
    rows: Sequence[AddressStatements],
    registers: _Registers,
    key_names: Mapping[str, str],
) -> LiftJson:
    lift = rows[0]
    lifted = [(row.register, _lifted_by(row, registers[row.register])) for row in rows]
    return {
        "lifted_at": (None if lift.by_person else moment_of(lift.statement.stamp))
        or moment(lift.said_ms),
        "by": "person" if lift.by_person else "event",
        "by_key": lift.by_key,
        "by_key_name": key_names.get(lift.by_key or ""),
        "reason": lift.statement.reason,
        "event": None if lift.by_person else public("evt", id_),
        # A person's lift also covers what may still be on its way; only what was there is shown.
        "causes": [
            _lifted_json(register, cause)
            for register, cause in lifted
            if cause is not None or not lift.by_person
        ],
    }


def _lifted_by(
    lift: AddressStatements, rows: Sequence[AddressStatements]
) -> AddressStatements | None:
    """Give the newest suppression that a lift ended.

    A person's lift marks what it ends; of several lifts, the first one after it did that.
    """
    if not lift.by_person:
        stamp = lift.statement.stamp or b""
        ended = [row for row in rows if not row.statement.lifts and _stamp_of(row) < stamp]
        return max(ended, key=_stamp_of, default=None)
    lifts = sorted(
        (row for row in rows if row.statement.lifts and row.by_person), key=lambda row: row.said_ms
    )
    ended = [
        row
        for row in rows
        if row.statement.lifted
        and lift is next((one for one in lifts if one.said_ms >= row.said_ms), lifts[-1])
    ]
    return max(ended, key=lambda row: row.said_ms, default=None)


def _stamp_of(row: AddressStatements) -> bytes:
    return row.statement.stamp or b""


def _lifted_json(register: LiftTarget, lifted: AddressStatements | None) -> CauseJson:
    if lifted is not None:
        return _cause_json(register, lifted.statement, [lifted])
    return {
        "cause": register.cause.value,
        "stream": register.stream or None,
        "reason": None,
        "suppressed_at": None,
        "event": None,
    }


def _after_lifts(statements: Iterable[RecordedStatement], now_ms: int) -> int:
    """Give a time that no known lift is after: another door's clock may run ahead of ours."""
    lifted = (stamp_ms(row.stamp) for row in statements if row.lifts and row.stamp is not None)
    return max([now_ms, *lifted])


def _stamp(now_ms: int, id_: bytes) -> Stamp:
    return Stamp(now_ms.to_bytes(8, "big") + id_[-8:])
