"""Databases with the gate's tables and one table of the app's own."""

import sqlite3
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from mailonce.gate import schema

ORDERS = "CREATE TABLE orders (note text NOT NULL)"
ORDER = "INSERT INTO orders (note) VALUES ('tea')"


@dataclass(frozen=True)
class Place:
    """One database, asked from outside the app."""

    dialect: str
    # A path for SQLite, a URL for PostgreSQL.
    url: str

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if self.dialect == "sqlite":
            connection = sqlite3.connect(self.url, isolation_level=None, timeout=5)
            try:
                return connection.execute(sql).fetchall()
            finally:
                connection.close()
        with psycopg.connect(self.url, autocommit=True) as connected:
            # A transaction that a test left open must fail its test, not hang the next one.
            connected.execute("SET lock_timeout = '3s'")
            cursor = connected.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def make(self) -> None:
        for statement in (*schema.statements(self.dialect), ORDERS):
            self.query(statement)

    def empty(self) -> None:
        if self.dialect == "postgresql":
            self.query("TRUNCATE orders, webhook_idempotency, webhook_outbox")

    def orders(self) -> int:
        return int(self.query("SELECT count(*) FROM orders")[0][0])

    def records(self) -> int:
        return int(self.query("SELECT count(*) FROM webhook_idempotency")[0][0])

    def let_outbox_be_due(self) -> None:
        """Age every wait and lease of the outbox."""
        self.query("UPDATE webhook_outbox SET run_at = '2001-01-01 00:00:00.000'")

    def let_window_end(self) -> None:
        """Age every record, as if its window were over."""
        past = "2001-01-01 00:00:00.000"
        self.query(f"UPDATE webhook_idempotency SET expires_at = '{past}'")

    def let_leases_end(self) -> None:
        """Age every lease, as if its holder had been paused for long."""
        past = "2001-01-01 00:00:00.000"
        self.query(
            f"UPDATE webhook_idempotency SET lease_until = '{past}' WHERE lease_until > '{past}'"
        )


def sqlite_place(folder: Path) -> Place:
    """Give a file of its own, copied: making the tables anew for each test takes longer."""
    path = folder / "app.db"
    path.write_bytes(_made_sqlite_file())
    return Place("sqlite", str(path))


@cache
def _made_sqlite_file() -> bytes:
    with TemporaryDirectory() as folder:
        place = Place("sqlite", f"{folder}/app.db")
        place.query("PRAGMA journal_mode = WAL")
        place.make()
        return Path(place.url).read_bytes()
