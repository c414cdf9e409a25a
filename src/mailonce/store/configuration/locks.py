"""Locks by name, held until the transaction ends."""

from hashlib import sha256

from sqlalchemy import Connection, text

# Any numbers will do as long as every process of every version takes the same.
CONFIGURATION = 7_261_915
# Whoever makes an address shares it, whoever lets a domain go has it alone.
DOMAINS = 7_261_916


def take(tx: Connection, number: int) -> None:
    """Let one transaction at a time go on; SQLite has one writer anyway."""
    if tx.dialect.name == "postgresql":
        tx.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def share(tx: Connection, number: int) -> None:
    """Keep out those who take the lock, but nobody else who shares it."""
    if tx.dialect.name == "postgresql":
        tx.execute(text("SELECT pg_advisory_xact_lock_shared(:number)"), {"number": number})


def number_of(*name: str | bytes) -> int:
    """Give the number of the lock of one thing, such as an inbox."""
    parts = [one if isinstance(one, bytes) else one.encode() for one in name]
    return int.from_bytes(sha256(b"\0".join(parts)).digest()[:8], "big", signed=True)
