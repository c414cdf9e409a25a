"""Who hangs up while it waits for mail leaves nothing behind."""

import asyncio

from fastapi import Request

from mailonce.edge.http.until_gone import until_gone
from mailonce.inbox.waiting import InboxReaders
from mailonce.store.dialects.contract import Database
from tests.inbox.conftest import Post


async def test_a_client_that_hangs_up_ends_its_wait(database: Database) -> None:
    post = Post(database)
    inbox = await post.make("ann@in.test")
    readers = InboxReaders(database, post.clock)
    hung_up = asyncio.Event()
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, object]:
        if messages:
            return dict(messages.pop())
        await hung_up.wait()
        return {"type": "http.disconnect"}

    request = Request({"type": "http", "headers": [], "method": "GET", "path": "/"}, receive)
    read = readers.read(inbox.id, workspace="default", after=0, limit=1, wait_s=25)
    waiting = asyncio.create_task(until_gone(request, read))
    while not readers.waiting:
        await asyncio.sleep(0)

    hung_up.set()

    assert await waiting is None
    assert readers.waiting == 0
