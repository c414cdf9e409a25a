"""Fire requests over keep-alive connections, as fast as a server answers.

Plain asyncio: what plays the providers must not be slower than what it plays them to.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from mailonce.errors import UnavailableError
from mailonce.testing.simulators import Post

TRIES_MAX = 20
ANSWER_TIMEOUT_S = 30
AGAIN_AFTER_S = 0.2
# On these a provider sends again.
AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class Heard(NamedTuple):
    """An answer."""

    code: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    host: str
    port: int
    tls: ssl.SSLContext | None
    prefix: str


async def fire(
    url: str,
    requests: Iterable[tuple[str, Post]],
    hear: Callable[[int, Heard], None],
    *,
    connections: int = 32,
) -> None:
    """Post each (path, post) to the server at `url`; `hear` gets its number and its answer.

    What the server cannot take now is sent again, as a provider would.
    Raises: UnavailableError where it still cannot after many tries.
    """
    parts = urlsplit(url)
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if tls else 80)
    place = _Place(parts.hostname or "127.0.0.1", port, tls, parts.path.rstrip("/"))
    waiting = deque(
        (number, _written(place, path, post)) for number, (path, post) in enumerate(requests)
    )
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_work(place, waiting, hear))


async def _work(
    place: _Place, waiting: deque[tuple[int, bytes]], hear: Callable[[int, Heard], None]
) -> None:
    connection = _Connection(place)
    try:
        while waiting:
            number, request = waiting.popleft()
            hear(number, await connection.ask(request))
    finally:
        connection.close()


class _Connection:
    """One keep-alive connection, opened again where it breaks."""

    def __init__(self, place: _Place) -> None:
        self._place = place
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> Heard:
        for _ in range(TRIES_MAX):
            try:
                heard = await asyncio.wait_for(self._ask(request), ANSWER_TIMEOUT_S)
            except (OSError, EOFError, TimeoutError, ValueError):
                self.close()
            else:
                if heard.code not in AGAIN:
                    return heard
            await asyncio.sleep(AGAIN_AFTER_S)
        raise UnavailableError(f"the server did not take a post in {TRIES_MAX} tries; see its log")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, request: bytes) -> Heard:
        if self._streams is None:
            place = self._place
            self._streams = await asyncio.open_connection(place.host, place.port, ssl=place.tls)
        reader, writer = self._streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        return Heard(int(head.split(b" ", 2)[1]), await reader.readexactly(size))


def _written(place: _Place, path: str, post: Post) -> bytes:
    headers = "".join(f"{name}: {value}\r\n" for name, value in post.headers.items())
    head = (
        f"POST {place.prefix}{path} HTTP/1.1\r\nHost: {place.host}:{place.port}\r\n"
        f"Content-Length: {len(post.body)}\r\n{headers}\r\n"
    )
    return head.encode("latin-1") + post.body
