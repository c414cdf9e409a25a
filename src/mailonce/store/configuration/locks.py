"""Locks by name, held until the transaction ends."""

from sqlalchemy import Connection, text

# Any numbers will do as long as every process of every version takes the same.
CONFIGURATION = 7_261_915


def take(tx: Connection, number: int) -> None:
    """Let one transaction at a time go on; SQLite has one writer anyway."""
    if tx.dialect.name == "postgresql":
        tx.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
