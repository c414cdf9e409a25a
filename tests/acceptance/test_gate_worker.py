"""The worker example over real HTTP: the gate finishes by itself what it answered with 202."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.gate_apps import App, event, fault, is_inside_the_handler, running
from tests.acceptance.test_gate_examples import fresh_database
from tests.servers import PostgresServer, wait_for


class Outside(ThreadingHTTPServer):
    """The service that is told of each ticket; it counts calls by key, and by message."""

    def __init__(self) -> None:
        self.keys: dict[str, Counter[str]] = {}
        self.fails = False
        super().__init__(("127.0.0.1", 0), Told)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Told(BaseHTTPRequestHandler):
    server: Outside

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        keys = self.server.keys.setdefault(body["message"], Counter())
        keys[self.headers["idempotency-key"]] += 1
        self.send_response(503 if self.server.fails else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    server = Outside()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def app(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, outside: Outside
) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("worker")
    database = f"sqlite:///{folder / 'tickets.db'}"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = fresh_database(server)
    with running(App("gate_worker", database, folder, {"NOTIFY_URL": outside.url})) as started:
        yield started


@pytest.fixture
def key() -> str:
    return uuid4().hex


def finished(app: App, key: str, **fields: str) -> httpx.Response:
    """Ask again until the worker is done, as a sender does that was told `processing`."""
    answers: list[httpx.Response] = []

    def is_done() -> bool:
        answers.append(app.post(event(key, **fields), key=key))
        assert answers[-1].status_code != 202 or is_processing(answers[-1])
        return answers[-1].status_code not in (202, 503)

    wait_for(is_done, what=f"the worker: {app.log[-2000:]}")
    return answers[-1]


def is_processing(answer: httpx.Response) -> bool:
    return answer.status_code == 202 and answer.headers["x-mailonce-gate"] == "processing"


def let_all_be_due(app: App) -> None:
    app.execute("UPDATE webhook_outbox SET run_at = '2001-01-01 00:00:00.000'")


def test_a_sender_is_told_to_ask_again_and_then_hears_the_answer(
    app: App, outside: Outside, key: str
) -> None:
    first = app.post(event(key), key=key)
    later = finished(app, key)

    assert is_processing(first)
    assert (later.status_code, later.headers["idempotent-replayed"]) == (201, "true")
    assert app.tickets(key) == 1
    wait_for(lambda: key in outside.keys, what="the call outside")
    assert list(outside.keys[key].values()) == [1]


def test_other_content_under_a_known_key_is_refused_and_named(app: App, key: str) -> None:
    app.post(event(key), key=key)

    other = app.post(event(key, subject="Refund"), key=key)

    assert (other.status_code, other.json()["fields"]) == (409, ["subject"])


def test_a_terminal_refusal_is_recorded_too(app: App, key: str) -> None:
    app.post(event(key, subject=""), key=key)

    assert finished(app, key, subject="").status_code == 422
    assert app.tickets(key) == 0


def test_of_fifty_copies_at_once_one_takes_effect(app: App, outside: Outside, key: str) -> None:
    answers = asyncio.run(app.storm(event(key), key=key, copies=50))
    finished(app, key)

    assert {answer.status_code for answer in answers} <= {201, 202}
    assert app.tickets(key) == 1
    wait_for(lambda: key in outside.keys, what="the call outside")
    assert len(outside.keys[key]) == 1


def test_after_a_crash_the_work_is_finished_without_the_sender(
    app: App, outside: Outside, key: str
) -> None:
    with fault(app, "slow"):
        assert is_processing(app.settle(event(key), key=key))
        wait_for(lambda: is_inside_the_handler(app), what="the worker to begin")
        app.kill()
    # What the dead worker had leased is due when its lease ends.
    let_all_be_due(app)

    app.start()

    wait_for(lambda: app.tickets(key) == 1, what="the ticket")
    wait_for(lambda: key in outside.keys, what="the call outside")
    assert finished(app, key).status_code == 201


def test_a_transient_failure_is_tried_again_by_the_worker(app: App, key: str) -> None:
    with fault(app, "broken"):
        app.post(event(key), key=key)
        failed = (
            "SELECT count(*) FROM webhook_outbox WHERE last_error IS NOT NULL AND status = 'due'"
        )
        wait_for(lambda: app.count(failed) > 0, what="a failed attempt")
    let_all_be_due(app)

    wait_for(lambda: app.tickets(key) == 1, what="the ticket")


def test_an_outage_outside_repeats_the_call_under_one_key(
    app: App, outside: Outside, key: str
) -> None:
    outside.fails = True
    app.post(event(key), key=key)
    wait_for(lambda: key in outside.keys, what="the first call")
    outside.fails = False
    [effect] = outside.keys[key]

    def is_repeated() -> bool:
        let_all_be_due(app)
        return outside.keys[key][effect] >= 2

    wait_for(is_repeated, what="the second call")
    assert list(outside.keys[key]) == [effect]
    assert app.tickets(key) == 1


def test_after_the_window_a_key_is_new(app: App, key: str) -> None:
    app.post(event(key), key=key)
    finished(app, key)
    app.let_window_end(key)

    answer = app.post(event(key), key=key)

    assert is_processing(answer)
