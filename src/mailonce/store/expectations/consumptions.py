"""Consumptions: who got which artifact, under which lease, and what became of it."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    insert,
    literal_column,
    select,
    update,
)

from mailonce.core.expectations.consumption import HELD, Consumption, ConsumptionState
from mailonce.core.expectations.redemption import Redemption
from mailonce.store.dialects.upsert import insert_or_add, insert_unless
from mailonce.store.schema.expectation_tables import CHILD_KEYS, CONSUMPTION_ACTS, CONSUMPTIONS

_C, _K = CONSUMPTIONS.c, CHILD_KEYS.c
_READ = [column for column in CONSUMPTIONS.c if column.name in Consumption.__struct_fields__]
# Written into the statements, or PostgreSQL would not see that a partial index fits.
_IS_LEASED: ColumnElement[bool] = _C.state == literal_column(f"'{ConsumptionState.LEASED}'")
IS_OVER: tuple[ColumnElement[bool], ...] = (
    _IS_LEASED,
    _C.lease_ms <= bindparam("now_ms", type_=BigInteger),
)


def put(tx: Connection, consumption: Consumption) -> bool:
    """Insert a consumption; False where somebody else holds its artifact."""
    fields = {name: getattr(consumption, name) for name in consumption.__struct_fields__}
    fields |= {"state": str(consumption.state), "holder": consumption.artifact, "redemption": None}
    return insert_unless(tx, CONSUMPTIONS, fields, unique=())


def of_artifacts(tx: Connection, artifacts: Sequence[bytes]) -> list[Consumption]:
    """List the consumptions of these artifacts, whoever made them, the oldest first."""
    if not artifacts:
        return []
    query = select(*_READ).where(_C.artifact.in_(artifacts)).order_by(_C.id)
    return [_read(row) for row in tx.execute(query)]


def of_expectations(tx: Connection, expectations: Sequence[bytes]) -> list[Consumption]:
    """List the consumptions that were made for these expectations, the oldest first."""
    if not expectations:
        return []
    query = select(*_READ).where(_C.expectation.in_(expectations)).order_by(_C.id)
    return [_read(row) for row in tx.execute(query)]


def of_key(
    tx: Connection, expectation: bytes, *, by: str, consume_key: bytes
) -> Consumption | None:
    """Find the consumption that an API key made with this consume key."""
    query = select(*_READ).where(
        _C.expectation == expectation, _C.by == by, _C.consume_key == consume_key
    )
    row = tx.execute(query).first()
    return None if row is None else _read(row)


def get(tx: Connection, workspace: str, id_: bytes) -> Consumption | None:
    row = tx.execute(select(*_READ).where(_C.workspace == workspace, _C.id == id_)).first()
    return None if row is None else _read(row)


def page(
    tx: Connection,
    workspace: str,
    *,
    after: bytes | None,
    limit: int,
    state: ConsumptionState | None = None,
    now_ms: int,
) -> list[Consumption]:
    """List consumptions, the newest first; a lease that has ended is unconfirmed."""
    query = select(*_READ).where(_C.workspace == workspace)
    if after is not None:
        query = query.where(_C.id < after)
    if state is ConsumptionState.LEASED:
        query = query.where(_C.state == str(state), _C.lease_ms > now_ms)
    elif state is ConsumptionState.UNCONFIRMED:
        is_over = (_C.state == str(ConsumptionState.LEASED)) & (_C.lease_ms <= now_ms)
        query = query.where((_C.state == str(state)) | is_over)
    elif state is not None:
        query = query.where(_C.state == str(state))
    return [_read(row) for row in tx.execute(query.order_by(_C.id.desc()).limit(limit))]


def end(tx: Connection, known: Consumption, state: ConsumptionState, *, now_ms: int) -> bool:
    """Let a consumption that stands as it was read move on; say whether it did."""
    moved = (
        update(CONSUMPTIONS)
        .where(_C.id == known.id, _C.token == known.token, _C.state == str(known.state))
        .values(
            state=str(state),
            holder=known.artifact if state in HELD else None,
            ended_ms=now_ms if state is not ConsumptionState.UNCONFIRMED else None,
        )
    )
    return bool(tx.execute(moved).rowcount)


def has_lapsed(tx: Connection, *, now_ms: int) -> bool:
    """Say whether a lease has ended that is not marked yet."""
    return (
        tx.execute(select(_C.id).where(*IS_OVER).limit(1), {"now_ms": now_ms}).first() is not None
    )


def lapse(tx: Connection, *, now_ms: int, most: int) -> list[Consumption]:
    """Mark the leases that have ended as unconfirmed; give what was marked."""
    some = select(*_READ).where(*IS_OVER).order_by(_C.lease_ms).limit(most)
    ended = [_read(row) for row in tx.execute(some, {"now_ms": now_ms})]
    return [one for one in ended if end(tx, one, ConsumptionState.UNCONFIRMED, now_ms=now_ms)]


def note(tx: Connection, consumption: bytes, *, id_: bytes, act: str, by: str, at_ms: int) -> None:
    """Keep what was done to a consumption, and by whom."""
    values = {"consumption": consumption, "id": id_, "act": act, "by": by, "at_ms": at_ms}
    tx.execute(insert(CONSUMPTION_ACTS).values(**values))


def acts_of(tx: Connection, consumptions: Sequence[bytes]) -> dict[bytes, list[dict[str, Any]]]:
    """List what was done to consumptions, in its order."""
    of = CONSUMPTION_ACTS.c
    query = select(CONSUMPTION_ACTS).where(of.consumption.in_(consumptions)).order_by(of.id)
    acts: dict[bytes, list[dict[str, Any]]] = {}
    for row in tx.execute(query):
        one = {"act": row.act, "by": row.by, "at_ms": row.at_ms}
        acts.setdefault(bytes(row.consumption), []).append(one)
    return acts


def redeem(tx: Connection, known: Consumption, redemption: Redemption) -> bool:
    """Keep how a redemption stands, where it stands as it was read; say whether it was kept."""
    before = None if known.redemption is None else msgspec.msgpack.encode(known.redemption)
    stands = _C.redemption.is_(None) if before is None else _C.redemption == before
    kept = (
        update(CONSUMPTIONS)
        .where(_C.id == known.id, _C.token == known.token, stands)
        .values(redemption=msgspec.msgpack.encode(redemption))
    )
    return bool(tx.execute(kept).rowcount)


def count_use(tx: Connection, child: bytes, *, workspace: str, expires_ms: int) -> int:
    """Count a use of a child key; give how many there were, this one included."""
    row = {"id": child, "workspace": workspace, "uses": 1, "expires_ms": expires_ms}
    insert_or_add(tx, CHILD_KEYS, [row], add=("uses",))
    uses: int | None = tx.scalar(select(_K.uses).where(_K.id == child))
    assert uses is not None, "it was counted in this transaction"
    return uses


def forget_child_keys(tx: Connection, *, before_ms: int) -> int:
    """Forget the uses of child keys that ended; they are refused by what they say."""
    return tx.execute(delete(CHILD_KEYS).where(_K.expires_ms < before_ms)).rowcount


def _read(row: Sequence[Any]) -> Consumption:
    fields = dict(zip((column.name for column in _READ), row, strict=True))
    for name in ("id", "expectation", "artifact", "consume_key"):
        fields[name] = bytes(fields[name])
    fields["state"] = ConsumptionState(fields["state"])
    redemption = fields["redemption"]
    if redemption is not None:
        fields["redemption"] = msgspec.msgpack.decode(bytes(redemption), type=Redemption)
    return Consumption(**fields)
