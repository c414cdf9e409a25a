"""A handler that would part its change from the claim is refused, and nothing of it stands.

Every way that we know of to end the gate's transaction, over every store and adapter: an error at
the first request, which says what to do, whether or not the handler swallows it; no change, no
record, and the key free for a handler that is repaired.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import psycopg_pool
import pytest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from flask import Flask, g
from psycopg.sql import SQL
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate import Gate, Passage, Response
from mailonce.gate.adapters import django as django_adapter
from mailonce.gate.adapters import flask as flask_adapter
from mailonce.gate.stores.django import DjangoStore
from mailonce.gate.stores.psycopg import PsycopgStore
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.gates import ask
from tests.gate.misuses import BOTH, Misuse, judge, name_of, raw, sa_raw
from tests.gate.places import ORDER, Place
from tests.gate.rigs import django as rig
from tests.gate.rigs.web import patience, sqlalchemy_url

CREATED = Response(201)


def leave(connection: Any) -> None:
    with connection:
        connection.execute(ORDER)


def begin(session: Session) -> None:
    with session.begin():
        session.execute(text(ORDER))


def second_session(session: Session) -> None:
    with Session(session.get_bind()) as other:
        other.execute(text(ORDER))
        other.commit()


SQLITE = [
    Misuse("commit", lambda tx: tx.commit()),
    Misuse("rollback", lambda tx: tx.rollback()),
    Misuse("with", leave),
    Misuse("executescript", lambda tx: tx.executescript(f"{ORDER};")),
    *raw("COMMIT", "end", "/* now */ commit", "ROLLBACK"),
]


def texts(tx: Any, *words: Any) -> None:
    """Send each by a cursor of its own, whatever becomes of the others."""
    faults = []
    for word in words:
        try:
            tx.cursor().execute(word)
        except (ConfigError, psycopg.Error) as error:
            faults.append(error)
    if faults:
        raise faults[0]


PSYCOPG = [
    Misuse("commit", lambda tx: tx.commit()),
    Misuse("rollback", lambda tx: tx.rollback()),
    Misuse("with", leave),
    Misuse("autocommit", lambda tx: setattr(tx, "autocommit", True), in_other_words=True),
    Misuse("close", lambda tx: tx.close()),
    *raw("COMMIT", f"{ORDER}; COMMIT", "PREPARE TRANSACTION 'x'", "ROLLBACK"),
    Misuse("rollback, order, commit", lambda tx: texts(tx, "ROLLBACK", ORDER, "COMMIT")),
    Misuse("composed", lambda tx: texts(tx, SQL("ROLLBACK"), ORDER, b"COMMIT")),
]
SESSION = [
    Misuse("commit", lambda tx: tx.commit()),
    Misuse("rollback", lambda tx: tx.rollback()),
    Misuse("close", lambda tx: tx.close()),
    Misuse("begin", begin, in_other_words=True),
    Misuse("connection commit", lambda tx: tx.connection().commit()),
    Misuse("transaction commit", lambda tx: tx.get_transaction().commit()),
    Misuse("rollback, commit", lambda tx: (tx.rollback(), tx.execute(text(ORDER)), tx.commit())),
    *sa_raw("COMMIT", "ROLLBACK", "-- done\nEND"),
]
ANOTHER = Misuse("another session", second_session)
CONNECTION = [
    Misuse("commit", lambda tx: tx.commit()),
    Misuse("rollback", lambda tx: tx.rollback()),
    Misuse("close", lambda tx: tx.close(), in_other_words=True),
    *sa_raw("COMMIT", "ROLLBACK"),
]


def django_text(word: str) -> Misuse:
    return Misuse(word, lambda alias: connections[alias].cursor().execute(word))


def django_commit(alias: str) -> None:
    transaction.commit(using=alias)


def durable(alias: str) -> None:
    with transaction.atomic(using=alias, durable=True):
        connections[alias].cursor().execute(ORDER)


DJANGO = [
    Misuse("transaction.commit", django_commit),
    Misuse("commit", lambda a: connections[a].commit()),
    Misuse("rollback", lambda a: transaction.rollback(using=a)),
    Misuse("autocommit", lambda a: connections[a].set_autocommit(True), in_other_words=True),
    Misuse("durable", durable, in_other_words=True),
    Misuse("close", lambda a: connections[a].close()),
    django_text("COMMIT"),
    django_text("ROLLBACK"),
    Misuse("the driver's commit", lambda a: connections[a].connection.commit(), True),
]


def handler_of(order: Callable[[], object], misuse: Callable[[], object], *, swallow: bool) -> Any:
    def work() -> None:
        order()
        if swallow:
            with suppress(Exception):
                misuse()
            with suppress(Exception):
                order()
        else:
            misuse()
            order()

    return work


def blocking(store: Any, misuse: Misuse, *, swallow: bool) -> Callable[[], int]:
    gate = Gate(store)

    def execute(tx: Any) -> object:
        return tx.execute(text(ORDER) if isinstance(store, SqlalchemyStore) else ORDER)

    def run(passage: Passage[Any]) -> Response:
        tx = passage.tx
        handler_of(lambda: execute(tx), lambda: misuse.act(tx), swallow=swallow)()
        return CREATED

    return lambda: gate.run(ask(), run).response.status


def flask_rig(store: Any, misuse: Misuse, *, swallow: bool) -> Callable[[], int]:
    app = Flask(__name__)
    app.config["PROPAGATE_EXCEPTIONS"] = True

    @app.post("/hooks")
    @flask_adapter.gated(Gate(store))
    def receive() -> tuple[str, int]:
        tx = g.passage.tx
        handler_of(lambda: tx.execute(text(ORDER)), lambda: misuse.act(tx), swallow=swallow)()
        return "made", 201

    headers = {"Idempotency-Key": "k-1"}
    return lambda: int(app.test_client().post("/hooks", headers=headers).status_code)


def django_rig(alias: Any, misuse: Misuse, *, swallow: bool) -> Callable[[], int]:
    @django_adapter.gated(Gate(DjangoStore(alias)))
    def receive(_: HttpRequest) -> HttpResponse:
        order = lambda: connections[alias].cursor().execute(ORDER)  # noqa: E731
        handler_of(order, lambda: misuse.act(alias), swallow=swallow)()
        return HttpResponse(status=201)

    def post() -> int:
        request = RequestFactory().post("/hooks", headers={"Idempotency-Key": "k-1"})
        return int(receive(request).status_code)

    return post


def sqlite_store(place: Place) -> Any:
    return SqliteStore(place.url, busy_s=1)


def psycopg_store(place: Place) -> Any:
    pool = psycopg_pool.ConnectionPool(
        place.url, kwargs={"autocommit": True}, min_size=1, max_size=2, open=True
    )
    _pools.append(pool.close)
    return PsycopgStore(pool)


def session_store(place: Place) -> Any:
    return SqlalchemyStore(sessionmaker(_engine(place)))


def engine_store(place: Place) -> Any:
    return SqlalchemyStore(_engine(place))


def django_alias(place: Place) -> Any:
    rig.set_up()
    return rig.add_database(place)


def _engine(place: Place) -> Any:
    url = sqlalchemy_url(place, drivers=("pysqlite", "psycopg"))
    # Whoever writes beside the handler waits in vain: the shorter the better.
    engine = create_engine(
        url, pool_size=2, max_overflow=0, pool_use_lifo=True,
        connect_args=patience(place, seconds=0.2),
    )  # fmt: skip
    _pools.append(engine.dispose)
    return engine


_pools: list[Callable[[], object]] = []

BLOCKING = [
    (dialect, adapter, store, misuse)
    for dialects, adapter, store, misuses in (
        (("sqlite",), blocking, sqlite_store, SQLITE),
        (("postgresql",), blocking, psycopg_store, PSYCOPG),
        (BOTH, blocking, session_store, [*SESSION, ANOTHER]),
        (BOTH, blocking, engine_store, CONNECTION),
        (BOTH, flask_rig, session_store, [*SESSION[:3], ANOTHER]),
        (BOTH, django_rig, django_alias, DJANGO),
    )
    for dialect in dialects
    for misuse in misuses
]


@pytest.fixture(autouse=True)
def closed_pools() -> Iterator[None]:
    yield
    while _pools:
        _pools.pop()()


@pytest.mark.parametrize("swallow", [False, True], ids=["raised", "swallowed"])
@pytest.mark.parametrize(
    ("place", "adapter", "store", "misuse"), BLOCKING, ids=name_of, indirect=["place"]
)
def test_a_blocking_handler_cannot_part_its_change_from_the_claim(
    place: Place, adapter: Any, store: Any, misuse: Misuse, *, swallow: bool
) -> None:
    made = store(place)
    send = adapter(made, misuse, swallow=swallow)
    repaired = adapter(made, Misuse("none", lambda _: None), swallow=False)

    outcomes = [outcome_of(send) for _ in range(3)]
    judge(place, misuse, outcomes, swallow=swallow)
    if outcomes[0][0] != "201":
        # On the connections that the refused ones gave back.
        assert [repaired(), repaired()] == [201, 201]
        assert (place.orders(), place.records()) == (2, 1)


def outcome_of(send: Callable[[], int]) -> tuple[str, str]:
    try:
        return str(send()), ""
    except Exception as error:
        return "raised", f"{type(error).__name__}: {error}"
