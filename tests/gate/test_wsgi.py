"""Leases and recovery points behind the blocking frameworks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from flask import Flask, abort, g
from flask import Response as FlaskResponse

from mailonce.errors import ConfigError
from mailonce.gate import Gate, Passage, Policy, Response, is_final
from mailonce.gate.adapters import django, flask
from mailonce.gate.stores.django import DjangoStore
from tests.gate.gates import store_of
from tests.gate.places import ORDER, Place
from tests.gate.rigs import django as rig
from tests.servers import wait_for

View = Callable[[Passage[Any]], Response]
Post = Callable[[], int]
Behind = Callable[[Gate[Any], View], Post]


def behind_flask(gate: Gate[Any], view: View) -> Post:
    app = Flask(__name__)

    @app.post("/hooks")
    @flask.gated(gate)
    def receive() -> tuple[bytes, int]:
        made = view(g.passage)
        return made.body, made.status

    return lambda: (
        app.test_client().post("/hooks", data=b"{}", headers={"Idempotency-Key": "k-1"}).status_code
    )


def behind_django(gate: Gate[Any], view: View) -> Post:
    @django.gated(gate)
    def receive(request: HttpRequest) -> HttpResponse:
        made = view(request.passage)  # type: ignore[attr-defined]
        return HttpResponse(made.body, status=made.status)

    def post() -> int:
        request = RequestFactory().post(
            "/hooks", b"{}", "application/json", headers={"Idempotency-Key": "k-1"}
        )
        return int(receive(request).status_code)

    return post


@pytest.fixture(params=["flask", "django"])
def behind(request: pytest.FixtureRequest, place: Place) -> tuple[Any, Behind]:
    """A store, and the framework before it."""
    if request.param == "flask":
        return store_of(place), behind_flask
    rig.set_up()
    return DjangoStore(rig.add_database(place)), behind_django


def test_a_lease_is_kept_while_the_view_works(place: Place, behind: tuple[Any, Behind]) -> None:
    store, build = behind
    gate = Gate(store, Policy(lease_s=0.6), mode="lease")
    leases: list[Any] = []

    def work(_: Passage[Any]) -> Response:
        leases.append(lease(place))
        wait_for(lambda: lease(place) != leases[0], what="a renewal")
        return Response(201)

    assert build(gate, work)() == 201
    assert lease(place) is None


def test_a_view_that_lost_its_lease_answers_as_its_successor(
    place: Place, behind: tuple[Any, Behind]
) -> None:
    store, build = behind
    gate = Gate(store, mode="lease")
    posts: list[Post] = []

    def work(passage: Passage[Any]) -> Response:
        if passage.recovered:
            return Response(201, b"by the second")
        passage.once("charge", lambda _: 7)
        place.let_leases_end()
        assert posts[0]() == 201
        passage.phase("order", lambda tx: tx.cursor().execute(ORDER) and None)
        raise AssertionError("it must not get here")

    posts.append(build(gate, work))

    assert posts[0]() == 201
    assert place.orders() == 0


def test_what_the_app_aborts_with_is_recorded(place: Place) -> None:
    app, runs = Flask(__name__), list[int]()

    @app.post("/hooks")
    @flask.gated(Gate(store_of(place), Policy(terminal=is_final)))
    def receive() -> str:
        runs.append(1)
        g.passage.tx.execute(ORDER)
        abort(404)

    client = app.test_client()
    answers = [client.post("/hooks", headers={"Idempotency-Key": "k-1"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    assert (len(runs), place.orders()) == (1, 0)


def test_an_error_handler_of_the_app_decides_what_is_recorded(place: Place) -> None:
    app, runs = Flask(__name__), list[int]()

    @app.errorhandler(KeyError)
    def refuse(_: KeyError) -> tuple[str, int]:
        return "a field is missing", 400

    @app.post("/hooks")
    @flask.gated(Gate(store_of(place), Policy(terminal=is_final)))
    def receive() -> str:
        runs.append(1)
        raise KeyError("subject")

    client = app.test_client()
    answers = [client.post("/hooks", headers={"Idempotency-Key": "k-1"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert len(runs) == 1


def test_a_body_above_the_limit_is_413(place: Place) -> None:
    app = Flask(__name__)
    gate = Gate(store_of(place), Policy(body_bytes_max=10))
    app.post("/hooks")(flask.gated(gate)(lambda: "never"))

    answer = app.test_client().post("/hooks", data=b"x" * 11, headers={"Idempotency-Key": "k-1"})

    assert answer.status_code == 413
    assert (place.records(), gate.counts["too_large"]) == (0, 1)


@pytest.mark.parametrize("framework", ["flask", "django"])
def test_a_stream_is_held_back_up_to_a_limit_and_undone_above_it(
    place: Place, framework: str
) -> None:
    policy = Policy(held_bytes_max=1000)
    sent: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(1000):
            sent.append(number)
            yield b"x" * 100

    def in_flask() -> object:
        app = Flask(__name__)
        app.config["PROPAGATE_EXCEPTIONS"] = True

        @app.post("/hooks")
        @flask.gated(Gate(store_of(place), policy))
        def stream() -> FlaskResponse:
            g.passage.tx.execute(ORDER)
            return FlaskResponse(chunks())

        return app.test_client().post("/hooks", headers={"Idempotency-Key": "k"})

    def in_django() -> object:
        rig.set_up()
        alias = rig.add_database(place)

        @django.gated(Gate(DjangoStore(alias), policy))
        def stream(_: HttpRequest) -> StreamingHttpResponse:
            connections[alias].cursor().execute(ORDER)
            return StreamingHttpResponse(chunks())

        return stream(RequestFactory().post("/hooks", headers={"Idempotency-Key": "k"}))

    with pytest.raises(ConfigError, match="held_bytes_max"):
        in_flask() if framework == "flask" else in_django()

    assert len(sent) < 20
    assert (place.orders(), place.records()) == (0, 0)


def lease(place: Place) -> Any:
    return place.query("SELECT lease_until FROM webhook_idempotency")[0][0]
