"""Count how often a client waits for PostgreSQL: a proxy between the two."""

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class CountingProxy:
    """Forwards every byte; a message of the client after an answer opens a new round trip.

    Answers are held back for `delay_s`: what the client sends without waiting for them belongs to
    the same trip, in however many pieces it comes.
    """

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._port = 0
        self.trips = 0
        self.delay_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the proxy did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}{self._target.path}"

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0),
        )
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, ours: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        theirs, to_server = await asyncio.open_connection(self._target.hostname, self._target.port)
        answered = True

        async def forward_answers() -> None:
            nonlocal answered
            while data := await theirs.read(1 << 16):
                await asyncio.sleep(self.delay_s)
                answered = True
                to_client.write(data)
            to_client.close()

        answers = asyncio.create_task(forward_answers())
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while data := await ours.read(1 << 16):
                if answered:
                    self.trips += 1
                    answered = False
                to_server.write(data)
        to_server.close()
        answers.cancel()
