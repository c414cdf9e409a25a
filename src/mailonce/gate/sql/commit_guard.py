"""The guard: keeps a handler from ending the transaction that its claim is part of.

The gate commits the claim, the handler's change and the recorded response together. A handler that
commits by itself would part them: the change stands, nothing says that it was done, and the next
copy does it again. So nothing but the gate may commit:

- The database refuses first. While a claim is not finished its column `unfinished` points at a row
  that does not exist, by a foreign key that is checked at COMMIT. Whoever commits early, by
  whatever call, driver or text, is refused, and everything is undone. The gate's last statement
  clears the column. (SQLite checks it where `PRAGMA foreign_keys` is on, as Django has it.)
- The stores refuse what they can see before it is sent: a commit of the session or connection,
  COMMIT or ROLLBACK as text, and, with SQLAlchemy, a commit of another connection of the same
  engine while the handler runs.
- A rollback takes the claim away. The last statement then finds no claim, and nothing commits.

Each is a `ConfigError`: the sender gets a 5xx and tries again, the developer reads what to change.
"""

import logging

from mailonce.core.transaction_text import ends_transaction
from mailonce.errors import ConfigError

# PostgreSQL prints it when it refuses a commit; so it says what to do.
CONSTRAINT = "only_the_gate_commits__remove_the_commit_from_your_handler"

COMMITTED = (
    "the handler committed the gate's transaction; remove its commit: the gate commits the claim, "
    "the handler's change and the recorded response together"
)
ENDED = (
    "the handler ended the gate's transaction; remove its commit, rollback or close, and put what "
    "may fail into a savepoint"
)
ELSEWHERE = (
    "the handler committed another connection while its claim is open; write through `passage.tx`, "
    "so that the claim and the change commit together, or owe the change with `passage.owe`"
)
LOCKED = (
    "the handler wrote through another connection to the SQLite file, which has one writer: the "
    "gate's transaction; write through `passage.tx`, so that the claim and the change commit "
    "together"
)
AUTOCOMMIT = (
    "the gate's connection is in autocommit mode, so that the claim and the change would commit "
    "apart; give the gate an engine or connection without autocommit"
)

NOT_AWAITED = (
    "the handler called `{name}` of its {owner} and did not await it, so that it did nothing; "
    "write `await` before it, in an `async def`"
)
NOT_ENDED = (
    "the handler called `{name}` of its passage, which has not ended as the handler answers; write "
    "`await` before it, or await the task that was made of it"
)
NOT_NEEDED = (
    "the handler called `{name}` of its {owner}; remove it: the gate commits when the handler has "
    "answered, and undoes everything where it raises"
)
NO_TRANSACTION = (
    "no transaction is open on this connection, so what is owed would commit by itself, without "
    "your change; begin one first, and write both in it"
)
STILL_USED = (
    "a task or thread that the handler started, or a stream or COPY that it left open, still uses "
    "the gate's transaction; await it, or close it, before the handler answers, or owe its work "
    "with `passage.owe`"
)
OTHER_LOOP = (
    "the gate's store has a connection of another event loop, and asyncpg's work in none but their "
    "own: make the engine or pool in the loop that uses it (in tests: in a fixture of each test), "
    "or give the engine `poolclass=NullPool`; see docs/gate.md, Tests"
)
SWALLOWED = (
    "a statement of the handler failed, and so PostgreSQL undid its transaction; put what may fail "
    "into a savepoint"
)

log = logging.getLogger("mailonce.gate")


def refuse_text(text: object) -> None:
    """Refuse a statement that would end the gate's transaction.

    Raises: ConfigError.
    """
    if isinstance(text, str) and ends_transaction(text):
        raise misuse(ENDED)


def is_locked(error: BaseException | None) -> bool:
    """Say whether SQLite refused a write because another connection writes."""
    return error is not None and "database is locked" in str(error)


def misuse(reason: str) -> ConfigError:
    """Make the error, and log it: a handler may swallow what it is given."""
    log.error("%s", reason)
    return ConfigError(reason)
