"""Send requests over keep-alive connections, as fast as a server answers."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from mailonce.errors import UnavailableError
from mailonce.testing.simulator import Post
from mailonce.testing.wire import (
    PostResponse,
    ReceiverAddress,
    ReceiverConnection,
    place_of,
    written,
)

TRIES_MAX = 20
AGAIN_AFTER_S = 0.2
# On these a provider sends again.
AGAIN = frozenset({408, 429, 500, 502, 503, 504})


async def post_all(
    url: str,
    requests: Iterable[tuple[str, Post]],
    hear: Callable[[int, PostResponse], None],
    *,
    connections: int = 32,
) -> None:
    """Post each (path, post) to the server at `url`; `hear` gets its number and its answer.

    What the server cannot take now is sent again, as a provider would.
    Raises: UnavailableError where it still cannot after many tries.
    """
    place = place_of(url)
    waiting = deque(
        (number, written(place, path, post)) for number, (path, post) in enumerate(requests)
    )
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_work(place, waiting, hear))


async def _work(
    place: ReceiverAddress,
    waiting: deque[tuple[int, bytes]],
    hear: Callable[[int, PostResponse], None],
) -> None:
    connection = ReceiverConnection(place)
    try:
        while waiting:
            number, request = waiting.popleft()
            hear(number, await _answer(connection, request))
    finally:
        connection.close()


async def _answer(connection: ReceiverConnection, request: bytes) -> PostResponse:
    for _ in range(TRIES_MAX):
        response = await connection.ask(request)
        if response is not None and response.code not in AGAIN:
            return response
        await asyncio.sleep(AGAIN_AFTER_S)
    raise UnavailableError(f"the server did not take a post in {TRIES_MAX} tries; see its log")
