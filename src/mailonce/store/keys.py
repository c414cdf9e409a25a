"""API keys, hashed."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from mailonce.core.access import Scope
from mailonce.store import configuration, locks
from mailonce.store.tables import KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as we keep it: its hash, never the key."""

    id: str
    workspace: str
    name: str
    scope: Scope
    digest: bytes
    created_ms: int
    revoked_ms: int | None = None


def put(tx: Connection, key: ApiKey) -> None:
    """Insert a key, unless it is there: several processes may start with the same one."""
    locks.take(tx, locks.CONFIGURATION)
    if tx.execute(select(KEYS.c.id).where(KEYS.c.digest == key.digest)).first() is not None:
        return
    tx.execute(
        insert(KEYS).values(
            id=key.id,
            workspace=key.workspace,
            name=key.name,
            scope=key.scope.value,
            digest=key.digest,
            created_ms=key.created_ms,
        )
    )
    configuration.bump(tx)


def list_of(tx: Connection, workspace: str) -> list[ApiKey]:
    """List the keys of a workspace, oldest first."""
    query = select(KEYS).where(KEYS.c.workspace == workspace).order_by(KEYS.c.created_ms, KEYS.c.id)
    return [_read(row) for row in tx.execute(query).mappings()]


def list_in_force(tx: Connection) -> list[ApiKey]:
    """List every key that was not revoked."""
    return [
        _read(row) for row in tx.execute(select(KEYS).where(KEYS.c.revoked_ms.is_(None))).mappings()
    ]


def has_admin(tx: Connection) -> bool:
    """Say whether an admin key was ever made."""
    query = select(KEYS.c.id).where(KEYS.c.scope == Scope.ADMIN.value).limit(1)
    return tx.execute(query).first() is not None


def revoke(tx: Connection, workspace: str, key_id: str, *, now_ms: int) -> bool:
    """Revoke a key; say whether there was one in force."""
    done = tx.execute(
        update(KEYS)
        .where(KEYS.c.workspace == workspace, KEYS.c.id == key_id, KEYS.c.revoked_ms.is_(None))
        .values(revoked_ms=now_ms)
    )
    configuration.bump(tx)
    return done.rowcount > 0


def _read(row: "configuration.Row") -> ApiKey:
    return ApiKey(
        id=row["id"],
        workspace=row["workspace"],
        name=row["name"],
        scope=Scope(row["scope"]),
        digest=bytes(row["digest"]),
        created_ms=row["created_ms"],
        revoked_ms=row["revoked_ms"],
    )
