"""What is particular to ASGI: streams, background tasks, clients that hang up, other traffic."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, HTTPException
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Policy, is_final
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.adapters.fastapi import gated, passage, transaction
from mailonce.gate.adapters.starlette import passage as passage_of
from tests.gate.gates import async_store_of
from tests.gate.places import ORDER, Place

KEY = {"idempotency-key": "k-1"}
LEASES = "SELECT lease_until FROM webhook_idempotency"


def client_of(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://app.test")


def gate_of(place: Place, **choices: Any) -> AsyncGate[Any]:
    mode = choices.pop("mode", "atomic")
    return AsyncGate(async_store_of(place), Policy(**choices), mode=mode)


def starlette_of(gate: AsyncGate[Any], handler: Callable[[Request], Any], **choices: Any) -> Any:
    app = Starlette(routes=[Route("/hooks", handler, methods=["GET", "POST"])])
    app.add_middleware(GateMiddleware, gate=gate, **choices)
    return app


async def order(request: Request) -> None:
    await passage_of(request).tx.exec_driver_sql(ORDER)


async def test_a_stream_is_recorded_whole(place: Place) -> None:
    async def stream(request: Request) -> Response:
        await order(request)

        async def parts() -> AsyncIterator[bytes]:
            for part in (b"one ", b"two ", b"three"):
                yield part

        return StreamingResponse(parts(), media_type="text/plain")

    async with client_of(starlette_of(gate_of(place), stream)) as client:
        answers = [await client.post("/hooks", headers=KEY) for _ in range(2)]

    assert [answer.text for answer in answers] == ["one two three"] * 2
    assert answers[1].headers["idempotent-replayed"] == "true"
    assert place.orders() == 1


async def test_a_background_task_runs_after_the_commit_and_once(place: Place) -> None:
    seen: list[int] = []

    async def later(request: Request) -> Response:
        await order(request)
        task = BackgroundTask(lambda: seen.append(place.orders()))
        return JSONResponse({}, background=task)

    async with client_of(starlette_of(gate_of(place), later)) as client:
        for _ in range(2):
            await client.post("/hooks", headers=KEY)

    assert seen == [1]


async def test_what_is_not_asked_to_pass_the_gate_does_not(place: Place) -> None:
    async def plain(_: Request) -> Response:
        return JSONResponse({"free": True})

    app = starlette_of(gate_of(place), plain, applies=lambda scope: scope["path"] != "/hooks")
    async with client_of(app) as client:
        answers = [await client.get("/hooks"), await client.post("/hooks")]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert place.records() == 0


async def test_a_handler_that_is_not_behind_the_gate_is_told_so() -> None:
    async def hook(request: Request) -> Response:
        passage_of(request)
        return Response()

    app = Starlette(routes=[Route("/hooks", hook, methods=["POST"])])
    async with client_of(app) as client:
        assert (await client.post("/hooks")).status_code == 500
    with pytest.raises(ConfigError, match="GateMiddleware"):
        passage_of(Request({"type": "http"}))


async def test_a_cancelled_handler_leaves_nothing(place: Place) -> None:
    inside = asyncio.Event()

    async def stuck(request: Request) -> Response:
        await order(request)
        inside.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def well(request: Request) -> Response:
        await order(request)
        return Response(status_code=201)

    gate = gate_of(place)
    async with client_of(starlette_of(gate, stuck)) as client:
        task = asyncio.create_task(client.post("/hooks", headers=KEY))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with client_of(starlette_of(gate, well)) as client:
        answer = await client.post("/hooks", headers=KEY)

    assert answer.status_code == 201
    assert place.orders() == 1


async def test_an_app_that_ends_without_a_response_is_undone(place: Place) -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        del receive
        await scope["mailonce.gate.passage"].tx.exec_driver_sql(ORDER)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async with client_of(GateMiddleware(half, gate_of(place))) as client:
        answer = await client.post("/hooks", headers=KEY)

    assert answer.status_code == 500
    assert (place.orders(), place.records()) == (0, 0)


async def test_a_slow_handler_keeps_its_lease(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailonce.gate.adapters.asgi.RENEWALS_PER_LEASE", 1_200)
    runs, is_kept, is_answered = 0, asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        nonlocal runs
        runs += 1
        place.let_leases_end()
        [ended] = place.query(LEASES)
        while place.query(LEASES) == [ended]:
            await asyncio.sleep(0.01)
        is_kept.set()
        await is_answered.wait()
        return Response(status_code=201)

    gate = gate_of(place, mode="lease", lease_s=60)
    async with client_of(starlette_of(gate, slow)) as client, asyncio.timeout(60):
        first = asyncio.create_task(client.post("/hooks", headers=KEY))
        await is_kept.wait()
        copy = await client.post("/hooks", headers=KEY)
        is_answered.set()

        assert (await first).status_code == 201

    assert copy.status_code == 503
    assert runs == 1


async def test_a_handler_that_lost_its_lease_answers_as_the_holder(place: Place) -> None:
    gate = gate_of(place, mode="lease")
    runs = 0

    async def hook(request: Request) -> Response:
        nonlocal runs
        runs += 1
        if runs == 1:
            place.let_leases_end()
            await client.post("/hooks", headers=KEY)

        async def ordering(tx: Any) -> None:
            await tx.exec_driver_sql(ORDER)

        await passage_of(request).phase("order", ordering)
        return JSONResponse({"run": runs})

    async with client_of(starlette_of(gate, hook)) as client:
        answer = await client.post("/hooks", headers=KEY)

    assert (answer.status_code, answer.json()) == (200, {"run": 2})
    assert answer.headers["idempotent-replayed"] == "true"
    assert place.orders() == 1


async def test_fastapi_records_its_own_refusals(place: Place) -> None:
    router = APIRouter(route_class=gated(gate_of(place, terminal=is_final)), prefix="/v1")
    runs: list[str] = []

    @router.post("/hooks")
    async def hook(
        body: dict[str, int],
        tx: Annotated[Any, Depends(transaction)],
        held: Annotated[AsyncPassage[Any], Depends(passage)],
        later: BackgroundTasks,
    ) -> dict[str, str | None]:
        await tx.exec_driver_sql(ORDER)
        runs.append("run")
        if body.get("refuse"):
            raise HTTPException(404, "no such order")
        later.add_task(runs.append, "later")
        return {"key": held.key}

    app = FastAPI()
    app.include_router(router)
    async with client_of(app) as client:
        bodies = {"a": {"refuse": 1}, "b": {"x": "no number"}, "c": {"x": 1}}
        responses: dict[str, list[httpx.Response]] = {key: [] for key in bodies}
        for key, body in [*bodies.items()] * 2:
            responses[key].append(
                await client.post("/v1/hooks", headers={"idempotency-key": key}, json=body)
            )

    statuses = {
        key: [answer.status_code for answer in answers] for key, answers in responses.items()
    }
    assert statuses == {"a": [404, 404], "b": [422, 422], "c": [200, 200]}
    assert all("idempotent-replayed" in answers[1].headers for answers in responses.values())
    assert responses["c"][1].json() == {"key": "c"}
    assert runs == ["run", "run", "later"]
    assert place.orders() == 1


async def test_a_deferring_gate_does_not_run_the_app(place: Place) -> None:
    async def never(_: Request) -> Response:
        raise AssertionError

    app = starlette_of(gate_of(place), never, defers=True)
    async with client_of(app) as client:
        answer = await client.post("/hooks", headers=KEY, content=b"{}")

    assert answer.status_code == 202
    assert answer.headers["x-mailonce-gate"] == "processing"
    assert place.query("SELECT count(*) FROM webhook_outbox")[0][0] == 1


async def test_a_response_that_is_too_large_to_hold_back_is_undone(place: Place) -> None:
    sent = 0

    async def stream(request: Request) -> Response:
        await order(request)

        async def parts() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(1000):
                sent += 1
                yield b"x" * 100

        return StreamingResponse(parts())

    async with client_of(starlette_of(gate_of(place, held_bytes_max=1000), stream)) as client:
        answer = await client.post("/hooks", headers=KEY)

    assert answer.status_code == 500
    assert sent < 20
    assert (place.orders(), place.records()) == (0, 0)


async def test_a_file_is_sent_as_plain_bytes_where_the_server_offers_more(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "answer"
    file.write_bytes(b"from a file")
    messages: list[Any] = []
    incoming: list[Any] = [{"type": "http.request", "body": b"{}"}]

    async def receive() -> Any:
        if not incoming:
            # The client stays, and says no more.
            await asyncio.Event().wait()
        return incoming.pop()

    async def send(message: Any) -> None:
        messages.append(message)

    async def give(_: Request) -> Response:
        return FileResponse(file)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/hooks",
        "query_string": b"",
        "headers": [(b"idempotency-key", b"k-1")],
        "extensions": {"http.response.pathsend": {}, "tls": {}},
    }
    await starlette_of(gate_of(place), give)(scope, receive, send)

    assert b"".join(message.get("body", b"") for message in messages) == b"from a file"
    assert place.records() == 1


async def test_an_app_that_sends_what_cannot_be_held_back_is_undone(place: Place) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        del receive
        await scope["mailonce.gate.passage"].tx.exec_driver_sql(ORDER)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/etc/hostname"})

    async with client_of(GateMiddleware(app, gate_of(place))) as client:
        answer = await client.post("/hooks", headers=KEY)

    assert answer.status_code == 500
    assert (place.orders(), place.records()) == (0, 0)


def test_a_route_that_cannot_reach_the_transaction_is_refused_when_it_is_added(
    place: Place,
) -> None:
    async def hook() -> None: ...

    atomic = APIRouter(route_class=gated(gate_of(place)))
    leased = APIRouter(route_class=gated(gate_of(place, mode="lease")))

    with pytest.raises(ConfigError, match="depend on"):
        atomic.post("/hooks")(hook)
    atomic.get("/hooks")(hook)
    leased.post("/hooks")(hook)
