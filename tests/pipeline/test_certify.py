"""Receivers of several kinds, probed over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson
import pytest
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from mailonce.clock import Clock
from mailonce.core.deliveries.certify import Certificate, Grade, ProbeKind
from mailonce.core.deliveries.route import Route, RouteKind, RouteSecret
from mailonce.core.deliveries.signing import new_secret
from mailonce.errors import RefusedError
from mailonce.net.http import GuardedClient
from mailonce.pipeline import certify as stage
from mailonce.pipeline.certify import certify_route
from tests.stopwatch import Stopwatch

SECRET = new_secret(b"x" * 32)
Receiver = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def receiving(receiver: Receiver, timeout_s: float) -> AsyncIterator[Route]:
    """Run a receiver on a free port; give a route that leads to it."""
    app = web.Application()
    app.router.add_post("/hooks", receiver)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield Route(
            id="rte_x",
            workspace="default",
            name="x",
            url=f"http://127.0.0.1:{port}/hooks",
            secrets=(RouteSecret(SECRET),),
            timeout_s=timeout_s,
        )
    finally:
        await runner.cleanup()


async def probe(receiver: Receiver, timeout_s: float = 60.0) -> Certificate:
    async with (
        receiving(receiver, timeout_s) as route,
        GuardedClient(allow_hosts=["127.0.0.1"]) as client,
    ):
        return await certify_route(client, Clock(), route)


def careful() -> Receiver:
    """Checks the signature, then the key; what a receiver should be."""
    seen: dict[str, bytes] = {}

    async def receive(request: web.Request) -> web.Response:
        body = await request.read()
        try:
            Webhook(SECRET).verify(body, dict(request.headers))
        except WebhookVerificationError:
            return web.Response(status=401)
        known = seen.setdefault(request.headers["x-idempotency-key"], body)
        return web.Response(status=200 if known == body else 409)

    return receive


@pytest.fixture(autouse=True)
def quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that takes 2 s to arrive says no more here than one that takes 0.2 s."""
    monkeypatch.setattr("mailonce.core.deliveries.certify.SLOW_S", 0.2)
    # How quickly a receiver of our own answers says how busy this machine is.
    monkeypatch.setattr("mailonce.core.deliveries.certify.QUICK_MS", 60_000)


async def test_a_careful_receiver_is_an_a() -> None:
    certificate = await probe(careful())

    assert certificate.grade is Grade.A, certificate


async def test_a_receiver_that_checks_no_signature_is_an_f() -> None:
    requests: list[tuple[str, bytes]] = []

    async def trusting(request: web.Request) -> web.Response:
        requests.append((request.headers["x-mailonce-probe"], await request.read()))
        return web.Response()

    certificate = await probe(trusting)

    grades = {one.check: one.grade for one in certificate.findings}
    assert certificate.grade is Grade.F
    assert (grades["unsigned"], grades["forged"], grades["stale"]) == (Grade.F, Grade.F, Grade.D)
    assert (grades["good"], grades["duplicate"], grades["slow"]) == (Grade.A, Grade.A, Grade.A)
    assert [name for name, _ in requests] == [one.value for one in ProbeKind]
    assert all(orjson.loads(body)["type"] == "other" for _, body in requests)


async def test_one_that_hangs_up_after_an_answer_is_judged_by_each_of_its_answers() -> None:
    seen: list[str] = []

    async def crash(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer what is not signed with 500, as uvicorn does, and read no second request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
        await reader.readexactly(int(headers["content-length"]))
        seen.append(headers["x-mailonce-probe"])
        status = 500 if seen[-1] in {"unsigned", "forged", "stale"} else 200
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(crash, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url, secrets = f"http://127.0.0.1:{port}/", (RouteSecret(SECRET),)
    route = Route(id="rte_x", workspace="default", name="x", url=url, secrets=secrets)
    async with server, GuardedClient(allow_hosts=["127.0.0.1"]) as client:
        certificate = await certify_route(client, Clock(), route)

    assert seen == [one.value for one in ProbeKind]
    assert not [one for one in certificate.findings if "reached" in one.detail]


async def test_a_slow_receiver_and_one_that_refuses_everything_are_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = careful()

    async def sluggish(request: web.Request) -> web.Response:
        await asyncio.sleep(0.15)
        return await good(request)

    async def strict(request: web.Request) -> web.Response:
        del request
        return web.Response(status=403)

    monkeypatch.setattr("mailonce.core.deliveries.certify.QUICK_MS", 100)
    assert (await probe(sluggish)).grade is Grade.B
    refused = await probe(strict)
    assert (refused.grade, len(refused.findings)) == (Grade.F, 1)


async def test_one_that_does_not_answer_in_time_is_no_reason_to_wait_for_long() -> None:
    async def hanging(request: web.Request) -> web.Response:
        await asyncio.sleep(600)
        return web.Response(text=request.path)

    with Stopwatch() as watch:
        certificate = await probe(hanging, timeout_s=1.0)

    assert certificate.grade is Grade.F
    assert "did not answer" in certificate.findings[0].detail
    assert watch.seconds < 4


async def test_the_guard_holds_for_probes_and_only_webhooks_are_probed() -> None:
    async with receiving(careful(), 60.0) as route, GuardedClient() as client:
        certificate = await certify_route(client, Clock(), route)
        polled = Route(id="rte_p", workspace="default", name="p", kind=RouteKind.POLL)
        with pytest.raises(RefusedError, match="posts nothing"):
            await certify_route(client, Clock(), polled)

    assert certificate.grade is Grade.F
    assert stage.TIMEOUT_S_MAX == 10
