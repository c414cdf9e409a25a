"""What the door refused is stored before an answer says that nothing else came."""

import asyncio

from sqlalchemy import func, select
from structlog.testing import capture_logs

from mailonce.core.inboxes.inbox import FULL_OF_MAILS, UNKNOWN
from mailonce.inbox.refusals import LOGGED_DOMAINS_MAX, MailRefusals
from mailonce.store.schema.mail_tables import MAIL_REFUSALS
from mailonce.telemetry import UNKNOWN_MAIL_DOMAIN
from tests.clock import ManualClock
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


async def test_mail_for_a_domain_of_nobody_is_counted_and_logged_once_a_minute(
    post: Post,
) -> None:
    await post.make("ann@in.test")
    clock = ManualClock()
    refused = MailRefusals(post.database, clock, post.metrics, clock.new_id())

    with capture_logs() as lines:
        for minutes in (0, 0, 1):
            clock.advance(minutes * 60)
            refused.add("ann@in.tset", UNKNOWN, peer="192.0.2.7")
            await refused.flush()
        refused.add("bob@in.tset", UNKNOWN)
        refused.add("ann@in.tset", FULL_OF_MAILS)
        refused.add("ann@in.test", UNKNOWN)
        await refused.flush()

    line = {"event": UNKNOWN_MAIL_DOMAIN, "domain": "in.tset", "log_level": "warning"}
    assert lines == [line, line], "the address is no matter of the log"
    shown = post.metrics.render(is_named=False).decode()
    assert "mailonce_smtp_unknown_domains_total 4.0" in shown


async def test_a_scanner_of_domains_does_not_fill_the_log(post: Post) -> None:
    clock = ManualClock()
    refused = MailRefusals(post.database, clock, post.metrics, clock.new_id())
    for number in range(3 * LOGGED_DOMAINS_MAX):
        refused.add(f"ann@in{number}.tset", UNKNOWN)

    with capture_logs() as lines:
        await refused.flush()

    shown = post.metrics.render(is_named=False).decode()
    assert len(lines) == LOGGED_DOMAINS_MAX
    assert f"mailonce_smtp_unknown_domains_total {3 * LOGGED_DOMAINS_MAX:.1f}" in shown
