"""API keys, hashed."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection, insert, select, update

from mailonce.core.access import Scope
from mailonce.store.configuration import locks, version
from mailonce.store.schema.tables import KEYS


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
    # By which its children are verified; a key that was made by an older version has none.
    public_half: bytes | None = None


def put(tx: Connection, key: ApiKey) -> None:
    """Insert a key, unless it is there: several processes may start with the same one."""
    locks.take(tx, locks.CONFIGURATION)
    if tx.execute(select(KEYS.c.id).where(KEYS.c.digest == key.digest)).first() is not None:
        return
    tx.execute(insert(KEYS).values(**asdict(key) | {"scope": key.scope.value}))
    version.bump(tx)


def put_only(tx: Connection, key: ApiKey, *, now_ms: int) -> bool:
    """Make a key the only one of its name and scope: others are revoked, and it is in force.

    Say whether that changed anything.
    """
    locks.take(tx, locks.CONFIGURATION)
    others = tx.execute(
        update(KEYS)
        .where(
            KEYS.c.name == key.name,
            KEYS.c.scope == key.scope.value,
            KEYS.c.digest != key.digest,
            KEYS.c.revoked_ms.is_(None),
        )
        .values(revoked_ms=now_ms)
    )
    row = tx.execute(select(KEYS).where(KEYS.c.digest == key.digest)).mappings().first()
    if row is None:
        put(tx, key)
        return True
    known = _read(row)
    wanted = replace(key, id=known.id, created_ms=known.created_ms)
    if known != wanted:
        tx.execute(
            update(KEYS)
            .where(KEYS.c.id == known.id)
            .values(
                workspace=key.workspace,
                name=key.name,
                scope=key.scope.value,
                revoked_ms=None,
                public_half=key.public_half,
            )
        )
    if known != wanted or others.rowcount:
        version.bump(tx)
        return True
    return False


def list_of(tx: Connection, workspace: str, *, admins: bool) -> list[ApiKey]:
    """List the keys of a workspace, oldest first; those of admins where `admins` may see them."""
    query = select(KEYS).where(KEYS.c.workspace == workspace).order_by(KEYS.c.created_ms, KEYS.c.id)
    if not admins:
        query = query.where(KEYS.c.scope != Scope.ADMIN.value)
    return [_read(row) for row in tx.execute(query).mappings()]


def list_in_force(tx: Connection) -> list[ApiKey]:
    return [
        _read(row) for row in tx.execute(select(KEYS).where(KEYS.c.revoked_ms.is_(None))).mappings()
    ]


def has_admin(tx: Connection) -> bool:
    is_admin = (KEYS.c.scope == Scope.ADMIN.value, KEYS.c.revoked_ms.is_(None))
    query = select(KEYS.c.id).where(*is_admin).limit(1)
    return tx.execute(query).first() is not None


def get(tx: Connection, workspace: str, key_id: str) -> ApiKey | None:
    query = select(KEYS).where(KEYS.c.workspace == workspace, KEYS.c.id == key_id)
    row = tx.execute(query).mappings().first()
    return None if row is None else _read(row)


def names_of(tx: Connection, workspace: str, ids: Iterable[str | None]) -> dict[str, str]:
    """Give the names of a workspace's keys by their ids, those of revoked ones included."""
    wanted = sorted({id_ for id_ in ids if id_ is not None})
    if not wanted:
        return {}
    is_one = (KEYS.c.workspace == workspace, KEYS.c.id.in_(wanted))
    rows = tx.execute(select(KEYS.c.id, KEYS.c.name).where(*is_one))
    return {row.id: row.name for row in rows}


def revoke(tx: Connection, key_id: str, *, now_ms: int) -> None:
    tx.execute(
        update(KEYS)
        .where(KEYS.c.id == key_id, KEYS.c.revoked_ms.is_(None))
        .values(revoked_ms=now_ms)
    )
    version.bump(tx)


def _read(row: "version.Row") -> ApiKey:
    half = None if row["public_half"] is None else bytes(row["public_half"])
    fields = {"scope": Scope(row["scope"]), "digest": bytes(row["digest"]), "public_half": half}
    return ApiKey(**{**row, **fields})


def names(tx: Connection) -> dict[str, str]:
    """Give the name of every key by its id, also of those that were revoked."""
    return {row.id: row.name for row in tx.execute(select(KEYS.c.id, KEYS.c.name))}
