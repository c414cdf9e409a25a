"""Senders, their credentials sealed, and their lanes."""

from collections.abc import Callable

from sqlalchemy import Connection, delete, func, insert, select

from mailonce.core.sends.sender import SETTINGS, Sender, SendMode, Tls
from mailonce.core.signatures.sealing import Sealer
from mailonce.store.configuration import version
from mailonce.store.configuration.version import ConfiguredTable
from mailonce.store.dialects.upsert import insert_missing
from mailonce.store.schema.send_tables import SENDERS
from mailonce.store.schema.tables import LANES

_SEALED = frozenset({"secrets", "password"})
_TABLE = ConfiguredTable(SENDERS, SETTINGS, ("provider",), _SEALED)

other_of_name = _TABLE.other_of_name
count_of = _TABLE.count_of
origin_of = _TABLE.origin_of
names_of_origin = _TABLE.names_of_origin
adopt = _TABLE.adopt
switch = _TABLE.switch


def list_all(tx: Connection, sealer: Sealer) -> list[Sender]:
    """List the senders of every workspace, oldest first; see `is_unreadable`."""
    return [_read(row, sealer) for row in _TABLE.rows(tx)]


def get(tx: Connection, sender_id: str, sealer: Sealer) -> Sender | None:
    row = tx.execute(select(SENDERS).where(SENDERS.c.id == sender_id)).mappings().first()
    return None if row is None else _read(row, sealer)


def put(
    tx: Connection,
    sender: Sender,
    sealer: Sealer,
    *,
    origin: str,
    now_ms: int,
    chance: Callable[[int], bytes],
) -> None:
    """Insert a sender, or change the one with its id; safe when several start at once.

    The oldest is the default, so none is as old as another. Whether it is on is not touched:
    `switch` does that.
    """
    newest_ms = tx.scalar(select(func.max(SENDERS.c.created_ms))) or 0
    now_ms = max(now_ms, newest_ms + 1)
    is_new = _TABLE.put(
        tx, sender, sealer, origin=origin, now_ms=now_ms, chance=chance, off=sender.off
    )
    if is_new:
        tx.execute(insert(LANES).values(**_lane(sender.id)))


def ensure_lane(tx: Connection, sender_id: str) -> None:
    """Make the lane of a sender that no row stands for, unless it has one."""
    insert_missing(tx, LANES, [_lane(sender_id)])


def remove(tx: Connection, workspace: str, sender_id: str) -> bool:
    """Delete a sender and its lane; its sends stay. Say whether there was one."""
    is_removed = _TABLE.remove(tx, workspace, sender_id)
    if is_removed:
        tx.execute(delete(LANES).where(LANES.c.route == sender_id))
    return is_removed


def _lane(sender_id: str) -> dict[str, object]:
    return {"route": sender_id, "owner": b"", "until_ms": 0, "seq": 0, "acknowledged": 0}


def _read(row: version.Row, sealer: Sealer) -> Sender:
    fields = _TABLE.fields_of(row, sealer)
    tls = Tls(fields.get("tls", Tls.STARTTLS))
    mode = SendMode(fields.get("mode", SendMode.AT_MOST_ONCE))
    return Sender(**fields | {"tls": tls, "mode": mode, "off": row["off"]})
