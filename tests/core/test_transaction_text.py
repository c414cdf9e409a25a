"""Whatever would begin or end a transaction is known by its text; savepoints and data are not."""

import pytest

from mailonce.core.transaction_text import ends_transaction

ENDING = (
    "COMMIT",
    "  -- all of it\n/* now */ end;",
    "ROLLBACK WORK",
    "abort",
    "BEGIN IMMEDIATE",
    "start  transaction",
    "PREPARE TRANSACTION 'x'",
    "INSERT INTO t VALUES ('a;b'); commit",
    "SELECT 1;" + " " * 3000 + "COMMIT",
)
HARMLESS = (
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "ROLLBACK WORK TO SAVEPOINT s",
    "INSERT INTO t VALUES ('x; COMMIT')",
    "SELECT CASE WHEN a THEN 1 END; SELECT 2",
    "DO $body$ BEGIN PERFORM 1; END $body$; SELECT 1",
    'SELECT "x;end" FROM t; SELECT 1',
    "SELECT commit_id FROM t",
)


@pytest.mark.parametrize("text", ENDING)
def test_a_text_that_ends_a_transaction_is_known(text: str) -> None:
    assert ends_transaction(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_that_leaves_it_open_is_let_through(text: str) -> None:
    assert not ends_transaction(text)
