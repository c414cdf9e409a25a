"""A proxy before PostgreSQL that can swallow one answer, as a broken network does."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

# Long enough for the server to have committed what it was sent.
COMMIT_S = 0.5


class LossyProxy:
    """Forwards every byte, until it sees the marked statement: that one's answer is lost."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._marker: bytes | None = None
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self.lost = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None, "the proxy was not started"
        self._server.close()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None, "the proxy was not started"
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}{self._target.path}"

    def lose_answer_to(self, marker: bytes) -> None:
        """Lose the answer to the next large message that holds `marker`."""
        self._marker = marker

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        answers = asyncio.create_task(self._forward(there, writer))
        self._pipes.add(answers)
        try:
            while data := await reader.read(1 << 20):
                back.write(data)
                # The read of owners carries keys only; a body is in the write alone.
                if self._marker is not None and self._marker in data:
                    self._marker = None
                    self.lost += 1
                    answers.cancel()
                    await asyncio.sleep(COMMIT_S)
                    break
        finally:
            back.close()
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            writer.write(data)
        # A client that says goodbye waits until the server has hung up.
        writer.close()
