"""A line to PostgreSQL that counts the client's waits, whatever the driver.

A client waits after a Sync or a simple Query; what is sent without one of them in between travels
together. So their number is the number of round trips. (psycopg also sends a Flush after each
statement of a pipeline, and does not wait for what it brings.)
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

ASKING = b"SQ"
STARTUP = 196608


class Line:
    """Counts what the clients ask."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0

    async def trips(self, act: Callable[[int], Awaitable[object]], *, warm: int) -> int:
        """Count the round trips of one act, after the driver has warmed up."""
        for number in range(warm):
            await act(number)
        before = self.asked
        await act(warm)
        return self.asked - before


@contextlib.asynccontextmanager
async def counted_line(url: str) -> AsyncIterator[Line]:
    """Stand before the server at `url`."""
    parts = urlsplit(url)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(parts.hostname, parts.port)
        for pump in (_ask(reader, forth, line), _answer(back, writer)):
            tasks.add(asyncio.create_task(pump))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    line = Line(url.replace(f":{parts.port}", f":{port}"))
    try:
        yield line
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        # The transports close in the loop's next turn; left to the collector, they would complain.
        await asyncio.sleep(0)


async def _ask(source: asyncio.StreamReader, sink: asyncio.StreamWriter, line: Line) -> None:
    """Pass the client's messages on, one by one: those before the start have no type."""
    code = 0
    try:
        while code != STARTUP:
            head = await source.readexactly(8)
            size, code = struct.unpack("!ii", head)
            sink.write(head + await source.readexactly(size - 8))
        while True:
            head = await source.readexactly(5)
            rest = await source.readexactly(struct.unpack("!xi", head)[0] - 4)
            line.asked += head[:1] in ASKING
            sink.write(head + rest)
            await sink.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        sink.close()


async def _answer(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        return
    finally:
        sink.close()
