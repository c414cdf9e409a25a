"""One awaited client in several event loops: each mail is sent once, and nothing is raised."""

import asyncio
import threading
from typing import Any

import pytest

from mailonce import AsyncClient
from tests.client.stub import StubServer

MAIL: dict[str, Any] = {"from_": "shop@example.com", "subject": "a", "text": "b"}


async def send(client: AsyncClient) -> str:
    return (await client.send("ann@example.net", **MAIL)).id


# Of the connections whose loop is closed Python says so once more, when it collects them.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client_is_used_by_one_loop_after_the_other() -> None:
    with StubServer() as server:
        client = AsyncClient(server.url, "key", retry_s=0)

        sent = [asyncio.run(send(client)) for _ in range(4)]
        asyncio.run(client.close())

        assert sent == ["snd_1"] * 4
        assert server.requests == 4


def test_loops_that_run_side_by_side_keep_their_own_connections() -> None:
    with StubServer() as server:
        client = AsyncClient(server.url, "key", retry_s=0)
        other = asyncio.new_event_loop()
        thread = threading.Thread(target=other.run_forever, daemon=True)
        thread.start()

        async def mixed() -> list[str]:
            sent = []
            for _ in range(3):
                far = asyncio.run_coroutine_threadsafe(send(client), other)
                sent += [await asyncio.wrap_future(far), await send(client)]
            await client.close()
            return sent

        try:
            sent = asyncio.run(asyncio.wait_for(mixed(), 10))
        finally:
            other.call_soon_threadsafe(other.stop)
            thread.join(10)
            other.close()

        assert sent == ["snd_1"] * 6
        assert (server.requests, server.connections) == (6, 2)
