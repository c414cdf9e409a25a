"""The file of a SQLite database: who may read it, and the copy that a migration leaves."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, text

from mailonce.store.database import open_database
from tests.factories import Ledger, make_body, make_source

# What stands between the version that the test pretends to have and today's.
BACK = (
    "DROP TABLE probes",
    "ALTER TABLE head DROP COLUMN window_days",
    "UPDATE migrations SET version_num = '0006'",
)


def _go_back(tx: Connection) -> None:
    for statement in BACK:
        tx.execute(text(statement))


async def test_the_copy_before_a_migration_has_what_lies_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "mailonce.db"
    database = await open_database(f"sqlite:///{path}")
    try:
        ledger = Ledger(database, (await database.head()).now_ms)
        await ledger.tell(make_source(), [make_body(number) for number in range(5)])
        await database.write(_go_back)
        # As a crash leaves it: the newest commits are in the log alone.
        crashed = tmp_path / "crashed"
        crashed.mkdir()
        for name in ("mailonce.db", "mailonce.db-wal"):
            shutil.copy(tmp_path / name, crashed / name)
    finally:
        await database.close()

    await (await open_database(f"sqlite:///{crashed / path.name}")).close()

    copy = crashed / "mailonce.before-migration"
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (5,)
        version = connection.execute("SELECT version_num FROM migrations").fetchone()
    assert version == ("0006",)
    assert copy.stat().st_mode & 0o077 == 0


async def test_nobody_else_may_read_the_database(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'mailonce.db'}")
    try:
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    finally:
        await database.close()

    assert set(modes.values()) == {"0o600"}, modes
