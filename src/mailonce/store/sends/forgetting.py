"""Forget sends and their contents in slices; what is not settled stays."""

from sqlalchemy import Connection, delete, exists, select

from mailonce.store.schema.send_tables import (
    SEND_ACTS,
    SEND_ATTEMPTS,
    SEND_CONTENTS,
    SEND_REQUESTS,
    SENDS,
)

_S = SENDS.c


def forget(tx: Connection, *, before_ms: int, most: int) -> int:
    """Delete sends that were asked for and settled before then, with all that is known of them."""
    is_old = (_S.made_ms < before_ms) & (_S.done_ms < before_ms)
    keys = list(tx.scalars(select(_S.key).where(is_old).order_by(_S.made_ms).limit(most)))
    if not keys:
        return 0
    gone = tx.scalars(delete(SENDS).where(_S.key.in_(keys), is_old).returning(_S.key)).all()
    for table in (SEND_ATTEMPTS, SEND_ACTS):
        tx.execute(delete(table).where(table.c.send.in_(gone)))
    return len(gone)


def forget_requests(tx: Connection, *, before_ms: int, most: int) -> int:
    """Delete what the keys of requests stood for."""
    row = SEND_REQUESTS.c
    keys = list(tx.scalars(select(row.key).where(row.made_ms < before_ms).limit(most)))
    return tx.execute(delete(SEND_REQUESTS).where(row.key.in_(keys))).rowcount if keys else 0


def forget_contents(tx: Connection, *, before_ms: int, most: int) -> int:
    """Delete contents that no send needs any more."""
    row = SEND_CONTENTS.c
    is_needed = exists(select(_S.key).where(_S.content == row.id, _S.done_ms.is_(None)))
    is_old = (row.made_ms < before_ms) & ~is_needed
    ids = list(tx.scalars(select(row.id).where(is_old).order_by(row.made_ms).limit(most)))
    if not ids:
        return 0
    return tx.execute(delete(SEND_CONTENTS).where(row.id.in_(ids), is_old)).rowcount
