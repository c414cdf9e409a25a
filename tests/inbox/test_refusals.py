"""What the door refused is stored before an answer says that nothing else came."""

import asyncio

from sqlalchemy import func, select

from mailonce.core.inboxes.inbox import FULL_OF_MAILS
from mailonce.store.schema.mail_tables import MAIL_REFUSALS
from tests.inbox.conftest import Post


async def stored(post: Post) -> int:
    query = select(func.coalesce(func.sum(MAIL_REFUSALS.c.count), 0))
    return int(await post.database.read(lambda tx: tx.execute(query).scalar_one()))


async def test_who_flushes_waits_for_what_is_being_stored(post: Post) -> None:
    await post.make("ann@in.test")
    post.refusals.add("ann@in.test", FULL_OF_MAILS)
    running = asyncio.create_task(post.refusals.flush())
    await asyncio.sleep(0)

    await post.refusals.flush()

    assert running.done()
    assert await stored(post) == 1
    post.refusals.add("ann@in.test", FULL_OF_MAILS)
    await asyncio.gather(*(post.refusals.flush() for _ in range(3)))
    assert await stored(post) == 2


async def test_a_flush_that_is_cancelled_counts_nothing_twice(post: Post) -> None:
    await post.make("ann@in.test")
    post.refusals.add("ann@in.test", FULL_OF_MAILS)
    running = asyncio.create_task(post.refusals.flush())
    await asyncio.sleep(0)

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await post.refusals.flush()

    assert await stored(post) == 1
