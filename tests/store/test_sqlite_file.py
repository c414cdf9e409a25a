"""The file of a SQLite database: who may read it, and the copy that a migration leaves."""

import os
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine

from mailonce.errors import TakenError, UnavailableError
from mailonce.store.database import open_database
from mailonce.store.dialects.sqlite import file as sqlite_file
from mailonce.store.dialects.sqlite.database import JOBS_PER_CHECKPOINT

OLDER = "0003"


async def test_a_second_process_is_kept_out_by_whatever_name(tmp_path: Path) -> None:
    path, link = tmp_path / "mailonce.db", tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    database = await open_database(f"sqlite:///{path}")
    try:
        with pytest.raises(TakenError, match=rf"stop it \(process {os.getpid()}\)"):
            await open_database(f"sqlite:///{link}")
    finally:
        await database.close()

    # And the other way round, whoever came first.
    database = await open_database(f"sqlite:///{link}")
    try:
        with pytest.raises(TakenError):
            await open_database(f"sqlite:///{path}")
    finally:
        await database.close()


async def test_the_copy_before_a_migration_has_what_lies_in_the_log(tmp_path: Path) -> None:
    path, crashed = tmp_path / "mailonce.db", tmp_path / "crashed"
    crashed.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        _migrate(path, OLDER)
        writer.execute("INSERT INTO workspaces VALUES ('ws_late', 'late', 0)")
        # As a crash leaves it: the newest commits are in the log alone.
        for name in ("mailonce.db", "mailonce.db-wal"):
            shutil.copy(tmp_path / name, crashed / name)

    await (await open_database(f"sqlite:///{crashed / path.name}")).close()

    copy = crashed / "mailonce.before-migration"
    with closing(sqlite3.connect(copy)) as connection:
        names = connection.execute("SELECT name FROM workspaces ORDER BY name").fetchall()
        version = connection.execute("SELECT version_num FROM migrations").fetchone()
    assert names == [("default",), ("late",)]
    assert version == (OLDER,)
    assert copy.stat().st_mode & 0o077 == 0


def _migrate(path: Path, revision: str) -> None:
    """Make the tables of an older version."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", "mailonce.store:migrations")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


async def test_nobody_else_may_read_the_database(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'mailonce.db'}")
    try:
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    finally:
        await database.close()

    assert set(modes.values()) == {"0o600"}, modes


async def test_a_long_read_is_ended_and_its_reader_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "READ_S", 0.1, raising=False)
    monkeypatch.setattr(sqlite_file, "READERS", 1)
    # It ends by itself, so that a read without a limit fails this test instead of hanging it.
    counting = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000000) "
        "SELECT count(*) FROM n"
    )
    database = await open_database(f"sqlite:///{tmp_path / 'mailonce.db'}")
    try:
        with pytest.raises(UnavailableError, match=r"longer than 0\.1 s") as refusal:
            await database.read(lambda tx: tx.exec_driver_sql(counting).scalar_one())
        after = await database.read(lambda tx: tx.exec_driver_sql("SELECT 1").scalar_one())
    finally:
        await database.close()

    assert "written" not in str(refusal.value)
    assert after == 1


async def test_what_has_no_room_for_an_arrival_is_not_ready(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'mailonce.db'}")
    try:
        await database.write(_leave_one_page)

        with pytest.raises(UnavailableError, match="SQLITE_FULL"):
            await database.probe(b"this process")
    finally:
        await database.close()


async def test_the_log_is_copied_into_the_file_between_commits(tmp_path: Path) -> None:
    path, copy = tmp_path / "mailonce.db", tmp_path / "copy.db"
    database = await open_database(f"sqlite:///{path}")
    try:
        for number in range(JOBS_PER_CHECKPOINT + 1):
            await database.write(partial(_add_workspace, number=number))
        # The last one's answer says that what follows the one before is over.
        shutil.copy(path, copy)
        log_bytes = (tmp_path / "mailonce.db-wal").stat().st_size
        for number in range(JOBS_PER_CHECKPOINT + 1, 3 * JOBS_PER_CHECKPOINT):
            await database.write(partial(_add_workspace, number=number))
        later_bytes = (tmp_path / "mailonce.db-wal").stat().st_size
    finally:
        await database.close()

    with closing(sqlite3.connect(copy)) as connection:
        [found] = connection.execute("SELECT count(*) FROM workspaces WHERE id > 'ws_'").fetchone()
    assert found > 0, "the file alone has what was committed first"
    assert later_bytes < 2 * log_bytes, "the log is used again"


def _add_workspace(tx: Connection, *, number: int) -> None:
    tx.exec_driver_sql(f"INSERT INTO workspaces VALUES ('ws_{number}', 'n{number}', 0)")


def _leave_one_page(tx: Connection) -> None:
    pages = tx.exec_driver_sql("PRAGMA page_count").scalar_one()
    tx.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")
