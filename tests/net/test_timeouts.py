"""Each request on a connection has its own time, though the connection has one timer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from mailonce.net.connection import TURN_S, OutgoingConnection

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LONG_S = 600.0
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


@asynccontextmanager
async def connected(answers: int) -> AsyncIterator[OutgoingConnection]:
    """Connect to a peer that answers so many requests and leaves the next without an answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: OutgoingConnection(loop, lambda _: None), *server.sockets[0].getsockname()
    )
    try:
        yield connection
    finally:
        connection.abort()
        server.close()


async def ask(connection: OutgoingConnection, timeout_s: float) -> int:
    async with asyncio.timeout(60):
        return (await connection.ask(REQUEST, bytes_max=9, timeout_s=timeout_s)).status


@pytest.mark.parametrize("kind", LOOPS)
def test_a_shorter_time_than_that_of_the_request_before_counts(kind: str) -> None:
    async def run() -> None:
        async with connected(answers=1) as connection:
            assert await ask(connection, LONG_S) == 200

            with pytest.raises(TimeoutError):
                await connection.ask(REQUEST, bytes_max=9, timeout_s=0.05)

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("kind", LOOPS)
def test_the_time_of_a_request_that_is_over_ends_no_later_one(kind: str) -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        async with connected(answers=1) as connection:
            assert await ask(connection, 0.3) == 200
            began_s = loop.time()

            with pytest.raises(TimeoutError):
                await connection.ask(REQUEST, bytes_max=9, timeout_s=0.8)

            return loop.time() - began_s

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        assert runner.run(asyncio.wait_for(run(), 60)) >= 0.79


@pytest.mark.parametrize("kind", LOOPS)
def test_a_request_that_begins_as_another_ends_late_has_its_own_time(kind: str) -> None:
    async def run() -> bool:
        loop = asyncio.get_running_loop()
        async with connected(answers=1) as connection:
            assert await ask(connection, LONG_S) == 200
            # As where the answer came in the turn in which its time was over.
            connection._set_timer(loop.time() + TURN_S, connection._give_up)

            reply = connection.ask(REQUEST, bytes_max=9, timeout_s=LONG_S)
            _, pending = await asyncio.wait([reply], timeout=0.1)

            return reply in pending

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        assert runner.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("kind", LOOPS)
def test_a_connection_that_ended_leaves_no_timer(kind: str) -> None:
    async def run() -> None:
        async with connected(answers=1) as connection:
            assert await ask(connection, LONG_S) == 200
            timer = connection._timer
            assert timer is not None

            connection.abort()
            while not timer.cancelled():
                await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(asyncio.wait_for(run(), 60))
