"""Support sees what arrived and was not read yet, for how long, and why."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Connection, Select, update

from mailonce.core.health.checkup import Level
from mailonce.core.health.mail_waiting import MINUTE_MS
from mailonce.core.inboxes.inbox import Inbox
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes, pending_mails
from mailonce.store.schema.mail_tables import MAILS
from mailonce.views.doctor import examine_waiting_mail
from mailonce.views.inboxes import show_pending
from tests.inbox.conftest import make_mail
from tests.inbox.fetching import RESEND, FetchDesk, opened_desk
from tests.net.conftest import Authority, authority

__all__ = ["authority"]
ERROR = "unavailable: the provider answered 500"


@pytest_asyncio.fixture
async def desk(database_url: str, tmp_path: Path, authority: Authority) -> AsyncIterator[FetchDesk]:
    async with opened_desk(database_url, tmp_path, authority) as made:
        yield made


async def age(desk: FetchDesk, minutes: int) -> None:
    """Let all mail have arrived so long ago, and be due soon in the same order."""
    past = minutes * MINUTE_MS
    older = update(MAILS).values(
        made_ms=MAILS.c.made_ms - past, deadline_ms=MAILS.c.deadline_ms - past
    )
    await desk.service.database.write(lambda tx: tx.execute(older) and None)


async def known(desk: FetchDesk, inbox: Inbox) -> Inbox:
    found = await desk.service.database.read(lambda tx: inboxes.find(tx, "default", [inbox.id]))
    return found[inbox.id]


async def test_an_inbox_says_what_was_not_read_yet_and_why(desk: FetchDesk) -> None:
    desk.apis.faults[RESEND] = 500
    ann, bea = await desk.post.make("ann@in.test"), await desk.post.make("bea@in.test")
    for number in range(3):
        await desk.announce("resend", f"n{number}", ann.address)
    await desk.post.send(make_mail())
    await desk.until_tried("resend")

    async def is_read() -> bool:
        return (await show_pending(desk.service.database, ann))["mails"] == 3

    await desk.until(is_read)
    shown = await show_pending(desk.service.database, await known(desk, ann))
    other = await show_pending(desk.service.database, bea)
    first = min(row["made_ms"] for row in await desk.of_source("resend"))

    assert (shown["mails"], shown["last_error"]) == (3, ERROR)
    assert shown["oldest_at"] is not None
    assert shown["oldest_at"].endswith(f".{first % 1000:03}Z")
    assert other == {"mails": 0, "oldest_at": None, "last_error": None}
    desk.apis.faults.clear()
    await desk.until_read(ann.id, seconds=60)
    assert (await show_pending(desk.service.database, ann))["mails"] == 0


async def test_the_doctor_names_the_source_whose_provider_keeps_mail_waiting(
    desk: FetchDesk,
) -> None:
    desk.apis.faults[RESEND] = 500
    inbox = await desk.post.make("ann@in.test")
    await desk.announce("resend", "one", inbox.address)
    await desk.announce("resend", "two", inbox.address)
    await desk.until_tried("resend")

    lately = await examine_waiting_mail(desk.service.database)
    await age(desk, 12)
    [finding] = await examine_waiting_mail(desk.service.database)

    assert lately == []
    assert (finding.check, finding.level) == ("source resend", Level.WARN)
    assert finding.detail == (
        f"2 mails wait to be fetched from the provider, the oldest for 12 minutes: {ERROR}"
    )
    assert finding in await desk.service.examine()
    desk.apis.faults.clear()
    await desk.until_read(inbox.id, seconds=60)
    assert await examine_waiting_mail(desk.service.database) == []


@pytest.mark.parametrize(
    "query",
    [
        pending_mails.count_in("inb_1"),
        pending_mails.first_error_in("inb_1"),
        pending_mails.waiting_sources(1),
        pending_mails.oldest_error("src_1", 1),
    ],
    ids=["count", "first error", "sources", "oldest error"],
)
async def test_what_waits_is_found_by_an_index(database: Database, query: Select[Any]) -> None:
    def explain(tx: Connection) -> str:
        text = str(query.compile(tx, compile_kwargs={"literal_binds": True}))
        if database.name == "sqlite":
            return str(tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())
        # Of an empty table it would read all there is.
        tx.exec_driver_sql("SET enable_seqscan = off")
        return str(tx.exec_driver_sql(f"EXPLAIN {text}").all())

    plan = await database.read(explain)

    assert "mails_" in plan
    # The index of what is due, or on lease, has no other mail in it.
    assert not re.search("Seq Scan|SCAN mails(?! USING INDEX mails_(due|leased))", plan)
