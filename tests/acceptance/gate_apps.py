"""An example app in a process of its own, a sender that signs, and faults in its database."""

import asyncio
import contextlib
import hmac
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psycopg

import mailonce
from tests.servers import free_port, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(mailonce.__file__).parents[1]
SECRET = "whsec_" + b64encode(b"the secret of the example apps").decode()
SLOW_S = 0.8

# One for all: each client of its own would read the machine's certificates anew.
_CLIENT = httpx.Client(verify=False, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class App:
    """One of `examples/gate_*`, started as its README says, on a database of its own."""

    name: str
    database: str
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None
    # What starts it; default: its own file.
    command: Sequence[str] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks"

    @property
    def log(self) -> str:
        return (self.folder / "app.log").read_text(errors="replace")

    def start(self) -> "App":
        with (self.folder / "app.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command or [sys.executable, str(EXAMPLES / self.name / "app.py")],
                cwd=self.folder,
                start_new_session=True,
                stdout=log,
                stderr=log,
                env=self.variables(),
            )
        wait_for(self.answers, what=f"{self.name}: {self.log[-3000:]}")
        return self

    def variables(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "PORT": str(self.port),
            "DATABASE_URL": self.database,
            "WEBHOOK_SECRET": SECRET,
            **self.environment,
        }

    def answers(self) -> bool:
        assert self.process is not None, "the app was not started"
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended: {self.log[-3000:]}")
        try:
            # Without a signature nothing is claimed, and the answer is a refusal.
            return _CLIENT.post(self.url, content=b"{}").status_code == 401
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        assert self.process is not None, "the app was not started"
        # Whatever started it ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def post(self, event: Mapping[str, Any], *, key: str | None, **more: str) -> httpx.Response:
        body = json.dumps(event).encode()
        return _CLIENT.post(self.url, content=body, headers=signed(body, key, **more))

    def settle(self, event: Mapping[str, Any], *, key: str) -> httpx.Response:
        """Post as a sender does: again after each 503, until it has an answer."""
        return asyncio.run(self.storm(event, key=key, copies=1))[0]

    async def storm(
        self, event: Mapping[str, Any], *, key: str, copies: int
    ) -> list[httpx.Response]:
        """Post copies at once, each one settled."""
        body = json.dumps(event).encode()
        limits = httpx.Limits(max_connections=copies)
        async with httpx.AsyncClient(verify=False, limits=limits, timeout=60) as client:

            async def settle() -> httpx.Response:
                for _ in range(200):
                    answer = await client.post(self.url, content=body, headers=signed(body, key))
                    if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                        return answer
                    assert int(answer.headers["retry-after"]) >= 1
                    await asyncio.sleep(0.05)
                raise TimeoutError(f"{self.name} answers 503 for ever: {answer.text}")

            return await asyncio.gather(*(settle() for _ in range(copies)))

    def tickets(self, message: str) -> int:
        """Count the effects of one message."""
        return self.count(f"SELECT count(*) FROM tickets WHERE message = '{message}'")

    def count(self, query: str) -> int:
        return int(self.column(query)[0])

    def column(self, query: str) -> list[Any]:
        """Give the first value of each row."""
        return [row[0] for row in _fetch(self.database, query)]

    def let_window_end(self, key: str) -> None:
        """Age a record, as if its window were over."""
        past = "2001-01-01 00:00:00.000"
        self.execute(
            f"UPDATE webhook_idempotency SET expires_at = '{past}' WHERE idempotency_key = '{key}'"
        )

    def execute(self, statement: str) -> None:
        _execute(self.database, statement)


def event(message: str, **fields: Any) -> dict[str, Any]:
    """An inbound mail, as the examples take it."""
    return {"message": message, "sender": "ann@example.net", "subject": "Help", **fields}


def signed(body: bytes, key: str | None, **more: str) -> dict[str, str]:
    """Sign as Standard Webhooks says: the timestamp is the attempt's, the key the event's."""
    now = str(int(time.time()))
    content = f"msg_1.{now}.".encode() + body
    digest = hmac.digest(b64decode(SECRET.removeprefix("whsec_")), content, sha256)
    headers = {
        "content-type": "application/json",
        "webhook-id": "msg_1",
        "webhook-timestamp": now,
        "webhook-signature": "v1," + b64encode(digest).decode(),
    }
    if key is not None:
        headers["x-idempotency-key"] = key
    return headers | more


@contextmanager
def running(app: App) -> Iterator[App]:
    """Start an app, put the faults' triggers into its database, and see that it ends."""
    app.folder.mkdir(parents=True, exist_ok=True)
    try:
        app.start()
        _install_faults(app.database)
        yield app
    finally:
        if app.process is not None and app.process.poll() is None:
            app.kill()


@contextmanager
def fault(app: App, name: str) -> Iterator[None]:
    """Let the database fail ('broken') or dawdle ('slow') whenever a ticket is inserted.

    The examples hold nothing for tests: what goes wrong, goes wrong where it does in life.
    """
    app.execute(f"INSERT INTO faults VALUES ('{name}')")
    try:
        yield
    finally:
        wait_for(lambda: _removed(app, name), what="the fault to be removed")


def is_inside_the_handler(app: App) -> bool:
    """Say whether a handler stands in its INSERT right now."""
    if app.database.startswith("postgresql"):
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        return app.count(query) > 0
    path = app.database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False


def _removed(app: App, name: str) -> bool:
    try:
        app.execute(f"DELETE FROM faults WHERE name = '{name}'")
    except sqlite3.OperationalError:
        # The handler still writes.
        return False
    return True


def _install_faults(database: str) -> None:
    _execute(database, "CREATE TABLE IF NOT EXISTS faults (name text)")
    condition = "EXISTS (SELECT 1 FROM faults WHERE name = '{}')"
    if not database.startswith("postgresql"):
        broken, slow = condition.format("broken"), condition.format("slow")
        _execute(
            database,
            f"""
            CREATE TRIGGER IF NOT EXISTS break_down BEFORE INSERT ON tickets WHEN {broken}
            BEGIN SELECT RAISE(ABORT, 'the disk is having a bad day'); END
            """,
        )
        _execute(
            database,
            f"""
            CREATE TRIGGER IF NOT EXISTS dawdle BEFORE INSERT ON tickets WHEN {slow}
            BEGIN SELECT (WITH RECURSIVE step(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM step
                WHERE n < {int(_steps_in_a_second() * SLOW_S)}) SELECT count(*) FROM step); END
            """,
        )
        return
    _execute(
        database,
        f"""
        CREATE OR REPLACE FUNCTION go_wrong() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF {condition.format("broken")} THEN RAISE 'the disk is having a bad day'; END IF;
            IF {condition.format("slow")} THEN PERFORM pg_sleep({SLOW_S}); END IF;
            RETURN NEW;
        END $$
        """,
    )
    _execute(
        database,
        "CREATE OR REPLACE TRIGGER go_wrong BEFORE INSERT ON tickets "
        "FOR EACH ROW EXECUTE FUNCTION go_wrong()",
    )


@lru_cache(maxsize=1)
def _steps_in_a_second() -> float:
    """Tell how far SQLite counts in a second on this machine: it has no way to sleep."""
    steps = 400_000
    counting = (
        "WITH RECURSIVE step(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM step "
        f"WHERE n < {steps}) SELECT count(*) FROM step"
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        started = time.perf_counter()
        connection.execute(counting).fetchone()
        return steps / (time.perf_counter() - started)


def _execute(database: str, statement: str) -> None:
    if database.startswith("postgresql"):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(statement.encode())
        return
    path = database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
        connection.execute(statement)


def _fetch(database: str, query: str) -> list[Any]:
    if database.startswith("postgresql"):
        with psycopg.connect(database, autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()
    path = database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=60)) as plain:
        return plain.execute(query).fetchall()
