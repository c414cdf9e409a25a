"""A slow line before PostgreSQL: what waits for an answer shows, whatever the driver sends.

Trips are counted, not timed: a busy machine makes everything longer, but nothing more.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

# Far above what a statement takes, also on a busy machine.
TRIP_S = 0.05


class Line:
    """Every answer takes `TRIP_S` to come back, once the line is slow.

    What is sent before an answer is there belongs to one trip, in however many pieces it comes.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.slow = False
        self.counted = 0
        # An answer came since something was last sent.
        self.answered = True

    async def trips(self, act: Callable[[int], Awaitable[object]], *, warm: int) -> int:
        """Count how often one act waits for the line, after the driver has warmed up."""
        for number in range(warm):
            await act(number)
        self.slow = True
        before = self.counted
        await act(warm)
        self.slow = False
        return self.counted - before


@contextlib.asynccontextmanager
async def slow_line(url: str) -> AsyncIterator[Line]:
    """Stand before the server at `url`."""
    parts = urlsplit(url)
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(parts.hostname, parts.port)
        writers.extend((writer, forth))
        answers: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        for pump in (
            _ask(reader, forth, line),
            _hear(back, answers, line),
            _tell(answers, writer, line),
        ):
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
        # One left open complains when it is collected, long after its loop has ended.
        for one in writers:
            one.close()
        await asyncio.gather(*(one.wait_closed() for one in writers), return_exceptions=True)


async def _ask(source: asyncio.StreamReader, sink: asyncio.StreamWriter, line: Line) -> None:
    while data := await source.read(65536):
        if line.answered:
            line.counted += 1
            line.answered = False
        sink.write(data)
        await sink.drain()
    sink.close()


async def _hear(
    source: asyncio.StreamReader, answers: asyncio.Queue[tuple[float, bytes]], line: Line
) -> None:
    while data := await source.read(65536):
        answers.put_nowait((time.perf_counter() + (TRIP_S if line.slow else 0), data))
    answers.put_nowait((0, b""))


async def _tell(
    answers: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter, line: Line
) -> None:
    while True:
        due, data = await answers.get()
        if not data:
            sink.close()
            return
        await asyncio.sleep(max(0, due - time.perf_counter()))
        line.answered = True
        sink.write(data)
        await sink.drain()
