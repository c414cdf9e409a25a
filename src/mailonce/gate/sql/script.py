"""Statements written out with their values, so that one message carries BEGIN or COMMIT as well.

A driver sends parameters with one statement at a time. A round trip costs more than PostgreSQL's
reading of a short text, so the first statement of a transaction goes with its BEGIN, and the last
one with its COMMIT.
"""

import re
from functools import lru_cache
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from mailonce.errors import UnavailableError
from mailonce.gate.sql.commit_guard import SWALLOWED
from mailonce.gate.sql.statements import PARAMETER, Row, Sql, Statement, numbered


class Scripts:
    """The messages that open and close the transactions of one store.

    PostgreSQL keeps the two statements of the common way prepared in each connection: planning
    them anew would cost more than the trips that are saved. The names tell by their hash what they
    stand for, so that versions and tables do not mix.
    """

    def __init__(self, sql: Sql) -> None:
        closing = _checked(sql.completion)
        self._names = {sql.opening: _name(sql.opening), sql.completion: _name(closing)}
        self._prepare = _prepare(sql.opening) + _prepare(closing)
        # Whether a connection has them; False: a pooler such as PgBouncer manages connections.
        self._has: WeakKeyDictionary[object, bool] = WeakKeyDictionary()

    def opening(self, connection: object, first: Statement) -> str:
        """Begin, and run the first statement."""
        has = self._has.get(connection)
        if first.text not in self._names or has is False:
            return whole(first)
        if has:
            return f"BEGIN;{self._call(first)}"
        self._has[connection] = True
        return f"{self._prepare}BEGIN;{self._call(first)}"

    def closing(self, connection: object, last: Statement, *, is_begun: bool) -> str:
        """Run the last statement, and commit if it changed a row; else fail before the commit."""
        begin = "" if is_begun else "BEGIN;"
        if last.text in self._names and self._has.get(connection, False):
            return f"{begin}{self._call(last)};COMMIT"
        return f"{begin}{_checked(written(last))};COMMIT"

    def write_out(self, connection: object) -> None:
        """Prepare nothing in a connection: it is not kept, or others prepare in it, too."""
        self._has[connection] = False

    def has_not_opened(self, connection: object, error: BaseException) -> bool:
        """Learn from an opening that failed; say whether to send its whole text instead."""
        state = getattr(error, "sqlstate", None)
        if state == _MISSING:
            self.write_out(connection)
        elif state != _EXISTS:
            # Perhaps nothing was prepared: there may be no table yet.
            self._has.pop(connection, None)
        return state in (_MISSING, _EXISTS)

    def has_not_closed(self, connection: object, error: BaseException) -> None:
        """Learn from a closing that failed."""
        if getattr(error, "sqlstate", None) == _MISSING:
            self.write_out(connection)

    def _call(self, statement: Statement) -> str:
        _, names = numbered(statement.text)
        values = ",".join([literal(statement.params[name]) for name in names])
        return f"EXECUTE {self._names[statement.text]}({values})"


def whole(first: Statement) -> str:
    """Begin, and run the first statement, with nothing prepared."""
    return "BEGIN;" + written(first)


def _checked(text: str) -> str:
    """Let a statement fail where it changes no row."""
    ending = "SELECT 1 / count(*) FROM done"
    return f"WITH done AS ({text}) {ending}"


def _name(text: str) -> str:
    return "mailonce_" + sha256(text.encode()).hexdigest()[:24]


def _prepare(text: str) -> str:
    return f"PREPARE {_name(text)} AS {numbered(text)[0]};"


# There is no such prepared statement, or there is one already: made by another gate, or by whoever
# had the connection from PgBouncer before.
_MISSING = "26000"
_EXISTS = "42P05"
# What PostgreSQL calls the failure of a closing: division_by_zero.
NO_ROW = "22012"
# Where a driver must begin in its own way.
NOTHING = Statement("SELECT 1", {})


def committed(tag: str) -> None:
    """Check that a COMMIT committed: after a failed statement PostgreSQL rolls back instead.

    Raises: UnavailableError.
    """
    if tag != "COMMIT":
        raise UnavailableError(f"the gate's store: {SWALLOWED}")


def rows_of(statement: Statement, tag: str) -> list[Row]:
    """Tell the rows from what PostgreSQL calls the outcome: `INSERT 0 1`.

    >>> rows_of(Statement("", {}, given=(7,)), "INSERT 0 1")
    [(7,)]
    """
    assert statement.given is not None, "only the database knows what comes back"
    return [] if tag.endswith(" 0") else [statement.given]


def written(statement: Statement) -> str:
    """Write a statement with its values in their places.

    >>> written(Statement("SELECT :name, :count", {"name": "it's :count", "count": 1.5}))
    "SELECT 'it''s :count', 1.5"
    """
    params = statement.params
    parts = list(_pieces(statement.text))
    parts[1::2] = [literal(params[name]) for name in parts[1::2]]
    return "".join(parts)


def literal(value: Any) -> str:
    r"""Write a value so that PostgreSQL reads that value, whatever its settings.

    >>> print(literal("it's"), literal("a\\'b"), literal(b"'"), literal(None))
    'it''s'  E'a\\''b'  E'\\x27'::bytea NULL
    """
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("PostgreSQL cannot hold a text with a zero character")
        quoted = value.replace("'", "''")
        if "\\" in quoted:
            # A plain string means it as it stands, or as an escape: that is a setting.
            return " E'" + quoted.replace("\\", "\\\\") + "'"
        return f"'{quoted}'"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f" E'\\\\x{value.hex()}'::bytea"
    if value is None:
        return "NULL"
    assert isinstance(value, float), "the gate's values are texts, bytes and seconds"
    return repr(value)


@lru_cache(maxsize=256)
def _pieces(text: str) -> tuple[str, ...]:
    """Take a text apart: every second piece is the name of a parameter."""
    return tuple(re.split(PARAMETER, text))
