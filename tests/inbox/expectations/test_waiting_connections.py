"""Requests that wait over connections: answered once and in their turn, and nothing is left."""

import asyncio
import functools
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from mailonce.core.access import Scope
from mailonce.core.expectations.expectation import Expectation
from mailonce.edge.cli import serve
from mailonce.edge.cli.listeners import bind
from mailonce.edge.connections import ClientConnections
from mailonce.edge.http.app import build_app
from mailonce.edge.http.client_limits import CROWD
from mailonce.edge.http.loop_turn import Turn
from mailonce.edge.http.parking import ParkingApp
from mailonce.edge.http.protocol import DoorProtocol
from mailonce.errors import UnavailableError
from mailonce.inbox.expectations.expectation_parts import topic_of
from mailonce.settings import Settings
from mailonce.store.expectations import standing
from tests.inbox.expectations.waiting_room import ADDRESS, OPERATOR, WaitingRoom, code_mail

LIMIT_S = 60


class Door:
    """The HTTP door of a service, in this process, and connections to it."""

    def __init__(self, room: WaitingRoom, server: serve._Server, port: int, key: str) -> None:
        self.room = room
        self.server = server
        self.port = port
        self.key = key
        self.lines: list[Line] = []

    @property
    def waiting(self) -> int:
        service = self.room.desk.service
        return service.expectations.waiters.waiting + service.mail.readers.waiting

    async def until_waiting(self, many: int) -> None:
        async def check() -> bool:
            return self.waiting == many

        await self.room.desk.until(check)

    async def is_told_to_stop(self) -> bool:
        connections = self.server.server_state.connections
        return not any(one.cycle.keep_alive for one in connections if isinstance(one, DoorProtocol))

    def request(self, path: str, *headers: str, key: str | None = None) -> bytes:
        lines = [f"GET {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {key or self.key}"]
        return "\r\n".join([*lines, *headers, "", ""]).encode()

    def wait_for(self, expectation: Expectation, *, wait_s: float = 25) -> bytes:
        return self.request(f"/v1/expectations/{topic_of(expectation.id)}?wait={wait_s:g}")

    async def send(self, *requests: bytes) -> "Line":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"".join(requests))
        self.lines.append(Line(reader, writer))
        return self.lines[-1]


class Line:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Read an answer: its code, its headers, and what its body has."""
        async with asyncio.timeout(LIMIT_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = dict(one.lower().split(": ", 1) for one in lines)
            body = await self._reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), headers, orjson.loads(body)

    async def rest(self) -> bytes:
        """Read until the server hangs up."""
        async with asyncio.timeout(LIMIT_S):
            return await self._reader.read()


@pytest.fixture
def api_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which requests go the API's way."""
    calls: list[str] = []
    real = ParkingApp.__call__

    async def noted(self: ParkingApp, scope: Any, receive: Any, send: Any) -> None:
        calls.append(f"{scope['path']}?{scope['query_string'].decode()}")
        await real(self, scope, receive, send)

    monkeypatch.setattr(ParkingApp, "__call__", noted)
    return calls


@pytest_asyncio.fixture
async def door(room: WaitingRoom) -> AsyncIterator[Door]:
    service = room.desk.service
    _, key = await service.manage.keys.make("default", Scope.OPERATOR, "tests")
    await service.configuration.refresh()
    connections = ClientConnections(serve._limits(Settings()), service.metrics.door, CROWD)
    protocol = functools.partial(
        DoorProtocol, service=service, turn=Turn(service), connections=connections
    )
    connections.start()
    listener = bind("127.0.0.1", 0, option="--port")
    listener.listen(100)
    server = serve._Server(serve._config(build_app(service), protocol))
    serving = asyncio.create_task(server.serve([listener]))
    door = Door(room, server, listener.getsockname()[1], key)
    yield door
    for line in door.lines:
        line.writer.close()
    server.should_exit = True
    service.mail.readers.release()
    service.expectations.waiters.release()
    async with asyncio.timeout(LIMIT_S):
        await serving
    await connections.stop()


async def test_who_waits_is_answered_as_the_api_would(
    room: WaitingRoom, door: Door, api_calls: list[str]
) -> None:
    expectation = await room.open()
    inbox = f"/v1/inboxes/{ADDRESS}/messages"
    waits = [await door.send(door.wait_for(expectation)) for _ in range(3)]
    readers = [await door.send(door.request(f"{inbox}?after=0&wait=25")) for _ in range(3)]
    await door.until_waiting(6)
    assert api_calls == []

    await room.send(code_mail("734120"))

    shown = [await one.answer() for one in waits]
    messages = [await one.answer() for one in readers]
    line = await door.send(door.request(f"/v1/expectations/{topic_of(expectation.id)}"))
    plain = await line.answer()
    page = await (await door.send(door.request(f"{inbox}?after=0"))).answer()
    assert [body for _, _, body in shown] == [plain[2]] * 3
    assert plain[2]["state"] == "ready"
    assert [body["data"] for _, _, body in messages] == [page[2]["data"]] * 3
    assert len(page[2]["data"]) == 1
    assert {(code, headers["content-type"]) for code, headers, _ in [*shown, *messages]} == {
        (200, "application/json")
    }
    assert len(api_calls) == 2
    assert door.waiting == 0


async def test_when_its_time_is_over_it_is_told_so_and_may_ask_again(
    room: WaitingRoom, door: Door, api_calls: list[str]
) -> None:
    expectation = await room.open()
    line = await door.send(door.wait_for(expectation, wait_s=0.1))
    first = await line.answer()
    line.writer.write(door.request(f"/v1/inboxes/{ADDRESS}/messages?wait=0.1&after=0"))
    second = await line.answer()
    line.writer.write(door.wait_for(expectation))
    await door.until_waiting(1)

    await room.accept(code_mail("734120"))

    assert (first[2]["state"], second[2]["data"]) == ("pending", [])
    assert (await line.answer())[2]["state"] == "ready"
    assert api_calls == []


async def test_who_hangs_up_waits_no_longer(room: WaitingRoom, door: Door) -> None:
    expectation = await room.open()
    lines = [
        await door.send(door.wait_for(expectation)),
        await door.send(door.request(f"/v1/inboxes/{ADDRESS}/messages?wait=25")),
    ]
    await door.until_waiting(2)

    for line in lines:
        # Without it the server is told no more than that nothing else is sent.
        line.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        line.writer.transport.abort()

    await door.until_waiting(0)
    assert not room.desk.service.expectations.waiters._waiters


async def test_who_sends_no_more_still_gets_the_answer(room: WaitingRoom, door: Door) -> None:
    expectation = await room.open()
    line = await door.send(door.wait_for(expectation))
    await door.until_waiting(1)
    line.writer.write_eof()

    await room.accept(code_mail("734120"))

    code, headers, body = await line.answer()
    assert (code, headers["connection"], body["state"]) == (200, "close", "ready")
    assert await line.rest() == b""


async def test_what_follows_one_that_waits_is_answered_after_it(
    room: WaitingRoom, door: Door
) -> None:
    expectation = await room.open()
    line = await door.send(door.wait_for(expectation))
    await door.until_waiting(1)
    line.writer.write(door.request("/v1/expectations?limit=1") * 2)
    line.writer.write(door.wait_for(expectation, wait_s=1))

    await room.accept(code_mail("734120"))

    bodies = [(await line.answer())[2] for _ in range(4)]
    assert [body.get("state") for body in bodies] == ["ready", None, None, "ready"]


async def test_what_the_api_must_say_is_said_by_it_and_the_next_is_not_lost(
    room: WaitingRoom, door: Door, api_calls: list[str]
) -> None:
    expectation = await room.open()
    unknown = "exp_" + "0" * 32
    line = await door.send(door.request(f"/v1/expectations/{unknown}?wait=25"))
    code, _, problem = await line.answer()
    line.writer.write(door.request("/v1/inboxes/nobody@in.test/messages?wait=25"))
    line.writer.write(door.wait_for(expectation, wait_s=0.1))

    assert (code, problem["status"]) == (404, 404)
    assert (await line.answer())[0] == 404
    assert (await line.answer())[2]["state"] == "pending"
    # What is left of the wait by then.
    path, _, left_s = api_calls[0].partition("?wait=")
    assert path == f"/v1/expectations/{unknown}"
    assert 0 < float(left_s) <= 25


async def test_a_look_that_fails_later_is_told_at_once(
    room: WaitingRoom, door: Door, api_calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expectation = await room.open()
    line = await door.send(door.wait_for(expectation))
    await door.until_waiting(1)
    line.writer.write(door.request("/v1/providers"))

    def broken(*_: object, **__: object) -> None:
        raise UnavailableError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(standing, "load_all", broken)
        room.desk.service.expectations.waiters.wake([topic_of(expectation.id)])
        code, _, _ = await line.answer()

    assert code == 503
    assert api_calls[0] == f"/v1/expectations/{topic_of(expectation.id)}?wait=0.000"
    assert (await line.answer())[0] == 200
    assert door.waiting == 0


async def test_a_key_that_was_revoked_meanwhile_sees_nothing(room: WaitingRoom, door: Door) -> None:
    keys = room.desk.service.manage.keys
    made, secret = await keys.make("default", Scope.AGENT, "agent")
    await room.desk.service.configuration.refresh()
    expectation = await room.open()
    path = f"/v1/expectations/{topic_of(expectation.id)}?wait=25"
    agent = await door.send(door.request(path, key=secret))
    other = await door.send(door.request(path))
    await door.until_waiting(2)

    await keys.revoke(OPERATOR, made.id)
    await room.desk.service.configuration.refresh()
    await room.accept(code_mail("734120"))

    assert (await agent.answer())[0] == 401
    # The key of the other is in force as before.
    assert (await other.answer())[2]["state"] == "ready"


async def test_an_agent_has_no_way_to_the_mails(
    room: WaitingRoom, door: Door, api_calls: list[str]
) -> None:
    _, secret = await room.desk.service.manage.keys.make("default", Scope.AGENT, "agent")
    await room.desk.service.configuration.refresh()
    path = f"/v1/inboxes/{ADDRESS}/messages?wait=25"

    line = await door.send(door.request(path, key=secret))

    assert (await line.answer())[0] == 403
    assert len(api_calls) == 1


async def test_a_server_that_stops_answers_all_who_wait(room: WaitingRoom, door: Door) -> None:
    expectation = await room.open()
    inbox = door.request(f"/v1/inboxes/{ADDRESS}/messages?wait=25")
    waits = [await door.send(door.wait_for(expectation)) for _ in range(5)]
    waits += [await door.send(inbox) for _ in range(5)]
    await door.until_waiting(10)

    door.server.should_exit = True
    service = room.desk.service
    # As a stopping server does, once uvicorn has told the connections.
    await room.desk.until(door.is_told_to_stop)
    service.mail.readers.release()
    service.expectations.waiters.release()

    for one in waits:
        code, headers, _ = await one.answer()
        assert (code, headers["connection"]) == (200, "close")
        assert await one.rest() == b""


async def test_a_client_that_asks_and_never_reads_is_one_of_many(
    room: WaitingRoom, door: Door
) -> None:
    expectation = await room.open()
    silent = socket.create_connection(("127.0.0.1", door.port))
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    silent.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(
        silent, door.wait_for(expectation, wait_s=0.01) * 50
    )

    line = await door.send(door.wait_for(expectation))
    await door.until_waiting(1)
    await room.accept(code_mail("734120"))

    assert (await line.answer())[2]["state"] == "ready"
    silent.close()
    await door.until_waiting(0)
