"""The gate as a library of its own: what it needs, and the tables it brings."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import NullPool, create_engine, inspect

from mailonce.errors import ConfigError
from mailonce.gate import Gate, Outcome, schema
from tests.gate.gates import DONE, ask, store_of
from tests.gate.places import Place

# What a plain install does not bring; any attempt to import one fails.
SERVER = (
    "aiohttp alembic asyncpg fastapi httptools httpx prometheus_client pydantic pydantic_settings "
    "psycopg django flask rich sqlalchemy starlette structlog typer uvicorn uvloop"
)
BLOCKED = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SERVER.split()!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

sys.meta_path.insert(0, Absent())
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_gate_works_without_the_servers_packages(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    code = f"""
import sqlite3
from mailonce.gate import Gate, Request, Response, schema
from mailonce.gate.adapters import asgi
from mailonce.gate.outbox import Outbox
from mailonce.gate.signature import mailonce, mailwebhook
from mailonce.gate.stores.sqlite import SqliteStore

sqlite3.connect({str(path)!r}).executescript(schema.script("sqlite"))
gate = Gate(SqliteStore({str(path)!r}))
request = Request(headers=(("Idempotency-Key", "k"),))
print(*(gate.run(request, lambda _: Response(200)).outcome for _ in range(2)))
"""
    assert run(code) == "first replayed"


def test_the_seeds_function_needs_nothing_at_all() -> None:
    code = """
before = set(sys.modules)
import mailonce
mailonce.delivery_key("m", "r")
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - sys.stdlib_module_names))
print(*sorted(n for n in sys.modules if n.startswith("mailonce")))
"""
    others, ours = run(code).splitlines()

    assert others == "mailonce"
    rooms = ["mailonce", "mailonce.core", "mailonce.core.deliveries"]
    assert ours.split() == [*rooms, "mailonce.core.deliveries.delivery_key"]


def test_the_blocker_blocks() -> None:
    with pytest.raises(AssertionError, match="sqlalchemy is not installed"):
        run("import mailonce.gate.stores.sqlalchemy")


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_sql_file_is_what_the_code_makes(dialect: str) -> None:
    file = Path(schema.__file__).with_name(f"{dialect}.sql")

    assert file.read_text() == schema.script(dialect)


def test_the_script_can_run_at_every_start(place: Place) -> None:
    script = schema.script(place.dialect, table="start_keys", outbox="start_outbox")

    for _ in range(2):
        if place.dialect == "sqlite":
            with closing(sqlite3.connect(place.url)) as connection:
                connection.executescript(script)
        else:
            with psycopg.connect(place.url, autocommit=True) as opened:
                opened.execute(script)


def test_alembic_makes_the_tables_and_takes_them_away(place: Place) -> None:
    if place.dialect == "sqlite":
        url = f"sqlite:///{place.url}"
    else:
        url = place.url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, poolclass=NullPool)
    names = {"table": "gate_keys", "outbox": "gate_outbox"}
    with engine.begin() as connection:
        op = Operations(MigrationContext.configure(connection))
        schema.upgrade(op, **names)
        made = set(inspect(connection).get_table_names())
        columns = {column["name"] for column in inspect(connection).get_columns("gate_keys")}
        schema.downgrade(op, **names)
        left = set(inspect(connection).get_table_names())
    engine.dispose()

    assert {"gate_keys", "gate_outbox"} <= made
    assert not {"gate_keys", "gate_outbox"} & left
    seed = (
        "idempotency_key request_hash status response_status response_body created_at completed_at"
    )
    assert {*seed.split(), "scope", "response_headers", "lease_until", "fencing_token"} <= columns


@pytest.mark.parametrize("name", ["a b", "a;b", 'a"', "a.b.c", "", "1a"])
def test_a_name_that_is_no_name_never_reaches_a_statement(name: str) -> None:
    with pytest.raises(ConfigError):
        schema.statements("sqlite", table=name)
    with pytest.raises(ConfigError):
        schema.statements("postgresql", outbox=name)


def test_pruning_takes_only_what_is_over(place: Place) -> None:
    gate = Gate(store_of(place))
    for number in range(5):
        gate.run(ask(f"old-{number}"), lambda _: DONE)
    place.let_window_end()
    gate.run(ask("new"), lambda _: DONE)

    pruned = [gate.prune(rows_max=3), gate.prune(rows_max=3), gate.prune(rows_max=3)]

    assert pruned == [3, 2, 0]
    assert gate.run(ask("new"), lambda _: DONE).outcome is Outcome.REPLAYED
    assert gate.counts["first"] == 6


def test_the_pages_first_example_prints_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/gate.md").read_text()
    code, printed = re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)[:2]

    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert done.stdout == printed, done.stderr
