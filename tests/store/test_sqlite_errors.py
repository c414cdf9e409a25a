"""Why SQLite does not write is said in plain words."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from mailonce.store.dialects.writer_thread import unavailable

FILL = "INSERT INTO t SELECT zeroblob(1 << 16)"


def full(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA max_page_count = 4")
    connection.execute(FILL)


def read_only(file: Path) -> None:
    sqlite3.connect(f"file:{file}?mode=ro", uri=True).execute(FILL)


def locked(file: Path) -> None:
    holder = sqlite3.connect(file)
    holder.execute("BEGIN EXCLUSIVE")
    sqlite3.connect(file, timeout=0).execute(FILL)


def missing(file: Path) -> None:
    sqlite3.connect(f"file:{file}-none?mode=ro", uri=True)


def damaged(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)
    sqlite3.connect(file).execute(FILL)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (full, "the disk is full (SQLITE_FULL); "),
        (read_only, "its file is read-only (SQLITE_READONLY); "),
        (locked, "another process holds it (SQLITE_BUSY); "),
        (missing, "its file cannot be opened (SQLITE_CANTOPEN); "),
        (damaged, "its file is damaged (SQLITE_NOTADB); "),
    ],
)
def test_a_refusal_of_sqlite_has_its_cause(
    tmp_path: Path, fault: Callable[[Path], None], words: str
) -> None:
    file = tmp_path / "t.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (x)")

    with pytest.raises(sqlite3.Error) as caught:
        fault(file)

    assert words in str(unavailable(caught.value))


def test_an_error_without_words_of_its_own_has_its_code() -> None:
    assert "now (ValueError); try again" in str(unavailable(ValueError("secret")))
