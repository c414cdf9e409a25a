"""Each example app, as a user starts it, over real HTTP, on SQLite and PostgreSQL."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.acceptance.gate_apps import EXAMPLES, App, event, fault, is_inside_the_handler, running
from tests.servers import PostgresServer, wait_for

APPS = ("gate_fastapi", "gate_starlette", "gate_asgi", "gate_django", "gate_flask")


@pytest.fixture(
    scope="module",
    params=[f"{app}-{kind}" for app in APPS for kind in ("sqlite", "postgresql")],
)
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """One process for all tests of an app and a database; each test has its own keys."""
    name, kind = request.param.split("-")
    folder = tmp_path_factory.mktemp(request.param)
    database = f"sqlite:///{folder / 'tickets.db'}"
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = fresh_database(server)
    with running(App(name, database, folder)) as started:
        yield started


@pytest.mark.parametrize(
    "name",
    ["gate_flask", *(pytest.param(one, marks=pytest.mark.long)
                     for one in (*APPS, "gate_worker") if one != "gate_flask")],
)  # fmt: skip
def test_one_command_in_a_clone_starts_it(name: str, tmp_path: Path, key: str) -> None:
    app = App(name, f"sqlite:///{tmp_path / 'tickets.db'}", tmp_path)
    # The packages of the tests are those of the apps, so that nothing is downloaded here.
    app.command = ["make", "--directory", str(EXAMPLES.parent), "--old-file=.venv/bin/mailonce",
                   f"example-{name}"]  # fmt: skip

    with running(app):
        answers = [app.post(event(key), key=key) for _ in range(2)]
        wait_for(lambda: app.post(event(key), key=key).status_code == 201, what=app.log)

    first = 202 if name == "gate_worker" else 201
    assert answers[0].status_code == first, app.log


@pytest.fixture
def key() -> str:
    return uuid4().hex


def test_a_repeat_gets_the_recorded_answer(app: App, key: str) -> None:
    first = app.post(event(key), key=key)
    again = app.post(event(key), key=key)

    assert first.status_code == 201, first.text
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert app.tickets(key) == 1


def test_the_order_of_fields_is_not_other_content(app: App, key: str) -> None:
    app.post(event(key), key=key)

    again = app.post(dict(reversed(event(key).items())), key=key)

    assert again.headers.get("idempotent-replayed") == "true"


def test_other_content_under_a_known_key_is_refused_and_named(app: App, key: str) -> None:
    app.post(event(key), key=key)

    other = app.post(event(key, subject="Refund", note="new"), key=key)

    assert other.status_code == 409
    assert "subject" in other.text
    assert "note" in other.text
    assert "sender" not in other.text
    assert app.tickets(key) == 1


def test_a_key_is_required(app: App, key: str) -> None:
    assert app.post(event(key), key=None).status_code == 400
    assert app.post(event(key), key="").status_code == 400
    assert app.post(event(key), key=key, **{"idempotency-key": "another"}).status_code == 400
    assert app.tickets(key) == 0


def test_a_forged_request_claims_nothing(app: App, key: str) -> None:
    forged = app.post(event(key), key=key, **{"webhook-signature": "v1,Zm9yZ2Vk"})
    honest = app.post(event(key), key=key)

    assert forged.status_code == 401
    assert honest.status_code == 201
    assert "idempotent-replayed" not in honest.headers


def test_a_refusal_leaves_nothing_and_may_be_repaired(app: App, key: str) -> None:
    first = app.post(event(key, subject=""), key=key)
    again = app.post(event(key, subject=""), key=key)

    assert first.status_code == 422, first.text
    assert (again.status_code, again.content) == (422, first.content)
    assert "idempotent-replayed" not in again.headers
    assert app.tickets(key) == 0


def test_of_fifty_copies_at_once_one_takes_effect(app: App, key: str) -> None:
    answers = asyncio.run(app.storm(event(key), key=key, copies=50))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    assert app.tickets(key) == 1


def test_a_transient_failure_leaves_the_key_retryable(app: App, key: str) -> None:
    with fault(app, "broken"):
        failed = app.post(event(key), key=key)
    again = app.post(event(key), key=key)

    assert failed.status_code >= 500
    assert again.status_code == 201
    assert "idempotent-replayed" not in again.headers
    assert app.tickets(key) == 1


def test_a_repeat_during_a_slow_first_runs_nothing(app: App, key: str) -> None:
    with ThreadPoolExecutor() as pool, fault(app, "slow"):
        first = pool.submit(app.post, event(key), key=key)
        wait_for(lambda: is_inside_the_handler(app), what="the handler to begin")
        meanwhile = app.post(event(key), key=key)
        ended = first.done()
        answer = first.result()

    assert answer.status_code == 201
    if app.database.startswith("postgresql"):
        # Told at once, without waiting for the first to end.
        assert not ended
        assert meanwhile.status_code == 503
    # SQLite cannot tell this key's work from another's: a repeat waits, for a while.
    assert meanwhile.status_code == 503 or meanwhile.headers["idempotent-replayed"] == "true"
    assert meanwhile.status_code != 503 or int(meanwhile.headers["retry-after"]) >= 1
    assert app.settle(event(key), key=key).content == answer.content
    assert app.tickets(key) == 1


def test_a_crash_inside_the_handler_leaves_the_key_retryable(app: App, key: str) -> None:
    with fault(app, "slow"):
        sender = threading.Thread(target=lambda: _ignoring(app, key), daemon=True)
        sender.start()
        wait_for(lambda: is_inside_the_handler(app), what="the handler to begin")

        app.kill()
        app.start()

        sender.join(10)
    answer = app.settle(event(key), key=key)

    assert answer.status_code == 201
    assert "idempotent-replayed" not in answer.headers
    assert app.tickets(key) == 1


def test_after_the_window_a_key_is_new(app: App, key: str) -> None:
    first = app.post(event(key), key=key)
    app.let_window_end(key)

    again = app.post(event(key), key=key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert "idempotent-replayed" not in again.headers
    assert app.tickets(key) == 2


def fresh_database(server: PostgresServer) -> str:
    name = f"t_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.url(name)


def _ignoring(app: App, key: str) -> None:
    """Post, and lose the answer as a sender does when the other side dies."""
    import httpx

    try:
        app.post(event(key), key=key)
    except httpx.TransportError:
        return
