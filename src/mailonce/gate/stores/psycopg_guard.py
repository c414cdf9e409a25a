"""What a handler is given of a psycopg connection: its statements, but not its commit.

The connection itself stays with the gate, and goes back to its pool when the gate is done.
"""

from functools import lru_cache
from typing import Any, NoReturn, TypeVar
from weakref import ref

from psycopg import AsyncConnection, Connection, pq
from psycopg.sql import Composable

from mailonce.gate.sql.commit_guard import COMMITTED, ENDED, misuse, refuse_text

Taken = TypeVar("Taken", bound="Connection[Any] | AsyncConnection[Any]")


def _closed_wire() -> pq.abc.PGconn:
    wire = pq.PGconn.connect_start(b"not a connection")
    wire.finish()
    return wire


# Stands for the wire in a connection that was lent and given back.
CLOSED = _closed_wire()


def lend(taken: Taken) -> Taken:
    """Make the handler's own view of a connection: the same wire, whose transaction it cannot end.

    When the gate is done, the view is closed. The connection itself goes on in its pool, where a
    task that kept it would write into the transaction of somebody else.
    """
    kind: Any = type(taken)
    lent: Any = object.__new__(kind)
    vars(lent).update(vars(taken))
    for name in _slots_of(kind):
        if hasattr(taken, name):
            setattr(lent, name, getattr(taken, name))
    lent.commit = _refuse_commit
    lent.rollback = _refuse_end
    lent.close = _refuse_end
    lent.cursor_factory = _guarded(lent.cursor_factory)
    # What `stream` and `copy` gave: each holds the connection's lock until it ends or is closed.
    lent.streams = []
    view: Taken = lent
    return view


@lru_cache(maxsize=32)
def _slots_of(kind: type) -> tuple[str, ...]:
    """Name the fields that an app's own class keeps outside of `vars`, as Python stores them."""
    names: list[str] = []
    for one in kind.__mro__:
        slots = vars(one).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{one.__name__.lstrip('_')}{name}" if is_private else name)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _refuse_commit() -> NoReturn:
    raise misuse(COMMITTED)


def _refuse_end() -> NoReturn:
    raise misuse(ENDED)


@lru_cache(maxsize=32)
def _guarded(factory: Any) -> Any:
    """Make a class of cursors that refuse to end the transaction by a text."""
    if not isinstance(factory, type):
        # psycopg takes a function, too.
        def make(*args: Any, **choices: Any) -> Any:
            made = factory(*args, **choices)
            kind: Any = type(made)
            made.__class__ = _guarded(kind)
            return made

        return make

    def refusing(name: str) -> Any:
        plain = getattr(factory, name)

        def call(self: Any, query: Any, *args: Any, **choices: Any) -> Any:
            refuse_text(_text(query, self.connection))
            made = plain(self, query, *args, **choices)
            if name in ("copy", "stream"):
                # A copy is a generator in the clothes of a context manager.
                self.connection.streams.append(ref(getattr(made, "gen", made)))
            return made

        return call

    methods = {name: refusing(name) for name in ("copy", "execute", "executemany", "stream")}
    # No fields of its own, so that a cursor which is made already can become one.
    methods["__slots__"] = ()
    return type(factory.__name__, (factory,), methods)


def _text(query: Any, connection: Any) -> object:
    if isinstance(query, Composable):
        return query.as_string(connection)
    return query.decode("latin-1") if isinstance(query, bytes) else query
