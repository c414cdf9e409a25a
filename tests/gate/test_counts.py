"""What a gate counts, and shows to whoever observes it."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from fastapi import APIRouter, Depends, FastAPI
from flask import Flask

from mailonce.errors import UnavailableError
from mailonce.gate import Answer, AsyncGate, Gate, Policy, Request, Response
from mailonce.gate.adapters import asgi, django, fastapi, flask
from mailonce.gate.rules.keys import UNREAD_ID
from mailonce.gate.signature import webhook_id
from mailonce.gate.stores.django import DjangoStore
from tests.gate.gates import async_store_of, store_of
from tests.gate.places import Place
from tests.gate.rigs import django as rig

KEY = {"Idempotency-Key": "k-1"}
KEYED = Request(headers=tuple(KEY.items()))


class HandlerFaultError(Exception):
    """What a handler raises."""


def fail(*_: Any) -> Any:
    raise HandlerFaultError


async def fail_awaited(*_: Any) -> Any:
    raise HandlerFaultError


@pytest.fixture(params=["atomic", "lease"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_handler_that_raises_is_counted_and_observed(place: Place, mode: Any) -> None:
    seen: list[Answer] = []
    gate = Gate(store_of(place), mode=mode, observe=seen.append)

    with pytest.raises(HandlerFaultError):
        gate.run(KEYED, fail)
    gate.run(KEYED, lambda _: Response(201))

    assert [answer.outcome for answer in seen] == ["failed", "first"]
    assert seen[0].response.status == 500
    assert (gate.counts["failed"], gate.counts["first"]) == (1, 1)


async def test_an_awaited_handler_that_raises_is_counted_and_observed(
    place: Place, mode: Any
) -> None:
    seen: list[Answer] = []
    gate = AsyncGate(async_store_of(place), mode=mode, observe=seen.append)

    with pytest.raises(HandlerFaultError):
        await gate.run(KEYED, fail_awaited)

    assert [answer.outcome for answer in seen] == ["failed"]
    assert gate.counts["failed"] == 1


def test_a_store_that_is_away_while_the_handler_runs_is_counted_once(place: Place) -> None:
    gate = Gate(store_of(place))

    def lose(_: Any) -> Response:
        raise UnavailableError("the database went away")

    gate.run(KEYED, lose)

    assert {name: count for name, count in gate.counts.items() if count} == {"unavailable": 1}


def in_flask(place: Place, observe: Callable[[Answer], None]) -> None:
    app = Flask(__name__)
    app.post("/hooks")(flask.gated(Gate(store_of(place), observe=observe))(fail))
    app.test_client().post("/hooks", headers=KEY)


def in_django(place: Place, observe: Callable[[Answer], None]) -> None:
    rig.set_up()
    store: Any = DjangoStore(rig.add_database(place))

    @django.gated(Gate(store, observe=observe))
    def view(_: HttpRequest) -> HttpResponse:
        raise HandlerFaultError

    with pytest.raises(HandlerFaultError):
        view(RequestFactory().post("/hooks", headers=KEY))


@pytest.mark.parametrize("framework", [in_flask, in_django])
def test_a_view_that_raises_is_counted(place: Place, framework: Any) -> None:
    seen: list[Answer] = []

    framework(place, seen.append)

    assert [answer.outcome for answer in seen] == ["failed"]


@pytest.mark.parametrize("framework", ["asgi", "fastapi"])
async def test_an_app_that_raises_is_counted(place: Place, framework: str) -> None:
    gate = AsyncGate(async_store_of(place))
    app: Any
    if framework == "asgi":
        app = asgi.GateMiddleware(fail_awaited, gate)
    else:
        app, router = FastAPI(), APIRouter(route_class=fastapi.gated(gate))
        router.post("/hooks", dependencies=[Depends(fastapi.transaction)])(no_answer)
        app.include_router(router)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
        await client.post("/hooks", headers=KEY)

    assert gate.counts["failed"] == 1


async def no_answer() -> None:
    raise HandlerFaultError


@pytest.mark.parametrize("family", ["webhook-", "Svix-"])
def test_a_signed_id_that_nobody_reads_is_named(
    place: Place, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = {"id": "m-1", "timestamp": "1", "signature": "v1,"}
    request = Request(headers=tuple((family + name, value) for name, value in parts.items()))

    refused = Gate(store_of(place)).run(request, fail)
    read = Gate(store_of(place), Policy(key=webhook_id)).run(request, lambda _: Response(201))
    plain = Gate(store_of(place)).run(Request(), fail)

    assert (refused.response.status, refused.outcome) == (400, "bad_key")
    assert b"key=webhook_id" in refused.response.body
    assert UNREAD_ID.reason in caplog.messages
    assert read.outcome == "first"
    assert b"webhook_id" not in plain.response.body
