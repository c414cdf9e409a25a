"""Sources, their secrets sealed."""

from collections.abc import Callable
from dataclasses import asdict

import orjson
from sqlalchemy import Connection, delete, func, insert, select, update

from mailonce.core.seal import NONCE_BYTES, Sealer
from mailonce.core.source import Poison, Source
from mailonce.store import configuration, locks
from mailonce.store.tables import SOURCES

# What may prove a sender is sealed; the rest may be shown.
SECRET = ("secrets", "basic", "tokens", "headers")
PLAIN = (
    "public_keys",
    "allow_ips",
    "topic_arns",
    "unproven",
    "unsigned",
    "poison",
    "poison_attempts",
    "freshness_s",
    "silence_s",
    "options",
)


def list_all(tx: Connection, sealer: Sealer) -> list[Source]:
    """List the sources of every workspace; what cannot be opened is marked as unreadable."""
    rows = tx.execute(select(SOURCES).order_by(SOURCES.c.created_ms, SOURCES.c.id)).mappings()
    return [_read(row, sealer) for row in rows]


def account_of(tx: Connection, source_id: str) -> str | None:
    """Say which account a source belongs to; None where there is no such source."""
    return tx.scalar(select(SOURCES.c.account).where(SOURCES.c.id == source_id))


def id_of(tx: Connection, workspace: str, id_or_name: str) -> str | None:
    """Find a source of a workspace by its id or name."""
    named = (SOURCES.c.id == id_or_name) | (SOURCES.c.name == id_or_name)
    return tx.scalar(select(SOURCES.c.id).where(SOURCES.c.workspace == workspace, named))


def other_of_name(tx: Connection, source: Source) -> str | None:
    """Find another source of the same name in the same workspace, by its id."""
    return tx.scalar(
        select(SOURCES.c.id).where(
            SOURCES.c.workspace == source.workspace,
            SOURCES.c.name == source.name,
            SOURCES.c.id != source.id,
        )
    )


def count_of(tx: Connection, workspace: str) -> int:
    """Count the sources of a workspace."""
    return tx.scalar(select(func.count()).where(SOURCES.c.workspace == workspace)) or 0


def put(
    tx: Connection,
    source: Source,
    sealer: Sealer,
    *,
    origin: str,
    now_ms: int,
    chance: Callable[[int], bytes],
) -> None:
    """Insert a source, or change the one with its id; safe when several start at once."""
    locks.take(tx, locks.CONFIGURATION)
    fields = asdict(source)
    secret = orjson.dumps({name: fields[name] for name in SECRET})
    values = {
        "name": source.name,
        "provider": source.provider,
        "account": source.account,
        "settings": orjson.dumps({name: fields[name] for name in PLAIN}),
        "sealed": sealer.seal(secret, place=_place(source), nonce=chance(NONCE_BYTES)),
        "origin": origin,
    }
    changed = tx.execute(update(SOURCES).where(SOURCES.c.id == source.id).values(**values))
    if not changed.rowcount:
        tx.execute(
            insert(SOURCES).values(
                id=source.id, workspace=source.workspace, created_ms=now_ms, **values
            )
        )
    configuration.bump(tx)


def remove(tx: Connection, workspace: str, source_id: str) -> bool:
    """Delete a source; what it brought stays. Say whether there was one."""
    locks.take(tx, locks.CONFIGURATION)
    done = tx.execute(
        delete(SOURCES).where(SOURCES.c.workspace == workspace, SOURCES.c.id == source_id)
    )
    configuration.bump(tx)
    return done.rowcount > 0


def _place(source: Source) -> str:
    return f"{source.workspace}/sources/{source.id}"


def _read(row: configuration.Row, sealer: Sealer) -> Source:
    place = f"{row['workspace']}/sources/{row['id']}"
    opened = sealer.try_open(bytes(row["sealed"]), place=place)
    secret = dict.fromkeys(SECRET, ()) if opened is None else orjson.loads(opened)
    plain = orjson.loads(bytes(row["settings"]))
    lists = {name: tuple(secret[name]) for name in SECRET}
    lists |= {name: tuple(plain[name]) for name in ("public_keys", "allow_ips", "topic_arns")}
    return Source(
        id=row["id"],
        workspace=row["workspace"],
        name=row["name"],
        provider=row["provider"],
        account=row["account"],
        unproven=plain["unproven"],
        # An older version did not write it.
        unsigned=plain.get("unsigned", False),
        poison=Poison(plain["poison"]),
        poison_attempts=plain["poison_attempts"],
        freshness_s=plain["freshness_s"],
        silence_s=plain["silence_s"],
        options=plain["options"],
        is_unreadable=opened is None,
        **lists,
    )
