"""An app that has the table of seed 000 already: told what to do, and its records are kept."""

import json
import logging
from hashlib import sha256
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from django.core.management import call_command
from django.db import connections
from django.db.migrations.writer import OperationWriter
from sqlalchemy import NullPool, create_engine

from mailonce.errors import ConfigError
from mailonce.gate import Gate, Outcome, Passage, Policy, Request, Response, schema
from mailonce.gate.django.operations import AdoptTable
from tests.gate.gates import store_of
from tests.gate.places import ORDER, ORDERS, Place
from tests.gate.rigs import django as rig
from tests.gate.rigs.web import sqlalchemy_url

# As seed 000 prints it; SQLite has other words for a default.
SEED = """
CREATE TABLE webhook_idempotency (
    idempotency_key text PRIMARY KEY,
    request_hash char(64) NOT NULL,
    status text NOT NULL CHECK (status IN ('processing', 'completed')),
    response_status integer,
    response_body jsonb,
    created_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP,
    completed_at timestamptz
)"""
EVENT = {"subject": "Grüße", "id": 1}
POLICY = Policy()
SCOPE = POLICY.scope_of(method="POST", path="/hooks")


@pytest.fixture
def seeded(place: Place) -> Any:
    """A database with the seed's table, in which one event stands."""
    if place.dialect == "sqlite":
        empty = Place("sqlite", f"{place.url}-seed")
    else:
        place.query("DROP DATABASE IF EXISTS gate_seed")
        place.query("CREATE DATABASE gate_seed")
        empty = Place("postgresql", place.url.rpartition("/")[0] + "/gate_seed")
    for statement in (SEED, ORDERS):
        empty.query(statement)
    text = json.dumps(EVENT, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    empty.query(
        "INSERT INTO webhook_idempotency (idempotency_key, request_hash, status, response_status, "
        f"response_body, completed_at) VALUES ('k-1', '{sha256(text.encode()).hexdigest()}', "
        "'completed', 201, '{\"ticket\":7}', CURRENT_TIMESTAMP)"
    )
    return empty


def ask(key: str, event: object = None) -> Request:
    body = json.dumps(event or EVENT).encode()
    return Request(headers=(("x-idempotency-key", key),), body=body, method="POST", path="/hooks")


def order(passage: Passage[Any]) -> Response:
    passage.tx.cursor().execute(ORDER)
    return Response(201)


def check(place: Place) -> None:
    """What was done before is known, other content is refused, and new events are claimed."""
    gate = Gate(store_of(place), POLICY)

    known, other = gate.run(ask("k-1"), order), gate.run(ask("k-1", {"id": 2}), order)
    fresh = [gate.run(ask("k-2"), order).outcome for _ in range(2)]

    assert known.outcome is Outcome.REPLAYED
    assert (known.response.status, json.loads(known.response.body)) == (201, {"ticket": 7})
    assert known.response.header("content-type") == "application/json"
    assert other.outcome is Outcome.CONFLICT
    assert fresh == [Outcome.FIRST, Outcome.REPLAYED]
    assert (place.orders(), gate.prune()) == (1, 0)


def test_the_gate_names_the_remedy(seeded: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mailonce.gate")

    answer = Gate(store_of(seeded)).run(ask("k-1"), order)

    assert answer.response.status == 503
    assert "schema.adoption" in caplog.text
    assert seeded.orders() == 0


def test_the_table_is_adopted_by_sql(seeded: Place) -> None:
    for statement in schema.adoption(seeded.dialect, scope=SCOPE):
        seeded.query(statement)

    check(seeded)


def test_the_table_is_adopted_by_alembic(seeded: Place) -> None:
    url = sqlalchemy_url(seeded, drivers=("pysqlite", "psycopg"))
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        schema.adopt(Operations(MigrationContext.configure(connection)), scope=SCOPE)
    engine.dispose()

    check(seeded)


def test_the_table_is_adopted_by_django(seeded: Place) -> None:
    rig.set_up()
    alias = rig.add_database(seeded)
    with pytest.raises(ConfigError, match="AdoptTable"):
        call_command("migrate", "mailonce_gate", database=alias, verbosity=0)

    with connections[alias].schema_editor() as editor:
        AdoptTable(scope=SCOPE).database_forwards("app", editor, None, None)
    call_command("migrate", "mailonce_gate", database=alias, verbosity=0)
    connections[alias].close()

    check(seeded)
    written = OperationWriter(AdoptTable(scope=SCOPE)).serialize()[0]
    assert "AdoptTable" in written


@pytest.mark.parametrize("how", ["sql", "django"])
def test_a_table_of_the_gate_without_the_guard_gets_it(place: Place, how: str) -> None:
    place.query("ALTER TABLE webhook_idempotency DROP COLUMN unfinished")
    place.query("DROP TABLE webhook_idempotency_never")
    try:
        if how == "sql":
            for statement in schema.guard_statements(place.dialect):
                place.query(statement)
        else:
            rig.set_up()
            alias = rig.add_database(place)
            call_command("migrate", "mailonce_gate", database=alias, verbosity=0)
            connections[alias].close()
            place.query("DROP TABLE django_migrations")
    except BaseException:
        for statement in schema.guard_statements(place.dialect):
            place.query(statement)
        raise

    assert Gate(store_of(place)).run(ask("k-1"), order).outcome is Outcome.FIRST
