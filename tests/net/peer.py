"""A server that says exactly what a test wants, byte by byte."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Script = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Peer:
    """Runs `script` for each request; `requests` has what came, `opened` counts connections."""

    script: Script
    port: int = 0
    opened: int = 0
    open_now: int = 0
    open_most: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                await self.script(head, reader, writer)
        self.open_now -= 1
        writer.close()


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Peer]:
    peer = Peer(script)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()


def says(*pieces: bytes, then_close: bool = False) -> Script:
    async def script(head: bytes, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del head
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)
        if then_close:
            writer.close()

    return script


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not check():
            await asyncio.sleep(0.01)
