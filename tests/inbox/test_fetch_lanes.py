"""A provider that does not hand over its mail keeps no other mail waiting."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, delete, update

from mailonce.core.access import Caller, Scope
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.mail_items import FETCH_LANES, LANES, lane_of
from mailonce.core.work.states import AttemptKind, State
from mailonce.inbox import digest_mail, fetch_mail
from mailonce.store.database import open_database
from mailonce.store.migrations.versions import m0022_fetch_lanes
from mailonce.store.schema.mail_tables import MAILS, MESSAGES
from mailonce.store.schema.tables import LANES as LANE_ROWS
from tests.inbox.conftest import RAW, make_mail
from tests.inbox.fetching import RESEND, FetchDesk, opened_desk, start_worker
from tests.net.conftest import Authority, authority

__all__ = ["authority"]


OPERATOR = Caller("default", Scope.OPERATOR)


@pytest_asyncio.fixture
async def desk(
    database_url: str, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FetchDesk]:
    # Soon, so that a test need not wait for what comes back.
    monkeypatch.setattr(digest_mail, "RULE", replace(digest_mail.RULE, waits_s=(0.3,) * 200))
    async with opened_desk(database_url, tmp_path, authority) as made:
        yield made


async def make_inboxes(desk: FetchDesk) -> dict[str, Inbox]:
    """Make an inbox for each lane of mail that is whole."""
    made: dict[str, Inbox] = {}
    number = 0
    while len(made) < len(LANES):
        number += 1
        inbox = await desk.post.make(f"n{number}@in.test")
        made.setdefault(lane_of("mime", inbox=inbox.id, source=""), inbox)
    return made


async def announce_to_each(desk: FetchDesk, source: str, inboxes: dict[str, Inbox]) -> None:
    """Announce as many mails to each inbox as a lane reads at once."""
    for lane, inbox in inboxes.items():
        for number in range(4):
            await desk.announce(source, f"{source}-{lane}-{number}", inbox.address)


@pytest.mark.parametrize("fault", [0, 500, 302], ids=["hangs", "answers 500", "redirects"])
async def test_mail_that_is_whole_is_read_while_a_provider_hands_over_nothing(
    desk: FetchDesk, fault: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What hangs does so for as long as this test takes.
    monkeypatch.setattr(fetch_mail, "TIMEOUT_S", 600)
    monkeypatch.setattr(fetch_mail, "MAIL_TIMEOUT_S", 600)
    desk.apis.faults[RESEND] = fault
    inboxes = await make_inboxes(desk)
    codes = [await desk.post.make(one.address.replace("@", "-code@")) for one in inboxes.values()]
    while {lane_of("mime", inbox=one.id, source="") for one in codes} != set(LANES):
        codes.append(await desk.post.make(f"c{len(codes)}@in.test"))

    await announce_to_each(desk, "resend", inboxes)
    if fault:
        await desk.until_tried("resend")
    else:
        await desk.until_asked(4)
    for one in codes:
        await desk.post.send(make_mail(RAW, one.address))
    await desk.announce("mailgun", "of-another-source", codes[0].address)
    await desk.until_read(*(one.id for one in codes))

    waiting = await desk.of_source("resend")
    assert {row["message"] for row in waiting} == {None}
    assert {row["digester"] for row in waiting} == {FETCH_LANES[0]}
    assert desk.apis.most <= 4 + 1, "a lane fetches four at once"

    desk.apis.faults.clear()
    await desk.until_read(*(one.id for one in inboxes.values()), seconds=60)
    assert len(await desk.rows(MESSAGES)) == len(await desk.rows(MAILS))
    assert {row["state"] for row in await desk.rows(MAILS)} <= {State.DONE, State.LEASED}


async def test_a_source_that_answers_500_stops_no_other_one_of_its_lane(desk: FetchDesk) -> None:
    desk.apis.faults[RESEND] = 500
    inboxes = await make_inboxes(desk)
    await announce_to_each(desk, "resend", inboxes)
    await desk.until_tried("resend")
    other = await desk.post.make("other@in.test")

    await desk.announce("mailgun1", "of-the-same-lane", other.address)
    await desk.until_read(other.id)

    [row] = await desk.of_source("mailgun1")
    assert {one["digester"] for one in await desk.of_source("resend")} == {row["digester"]}
    assert desk.service.worker is not None
    assert desk.service.worker.endpoints_down() == {}


async def test_retries_at_a_source_that_hangs_leave_a_place_for_another_one_of_its_lane(
    desk: FetchDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_mail, "MAIL_TIMEOUT_S", 0.2)
    desk.apis.faults[RESEND] = 0
    inbox, other = [await desk.post.make(name) for name in ("ann@in.test", "other@in.test")]
    for number in range(6):
        await desk.announce("resend", f"n{number}", inbox.address)

    async def are_tried() -> bool:
        rows = await desk.of_source("resend")
        return {row["lane"] for row in rows} == {AttemptKind.RETRY}

    await desk.until(are_tried)
    monkeypatch.setattr(fetch_mail, "TIMEOUT_S", 600)
    monkeypatch.setattr(fetch_mail, "MAIL_TIMEOUT_S", 600)

    async def are_all_leased() -> bool:
        rows = await desk.of_source("resend")
        return [row["state"] for row in rows].count(State.LEASED) >= 3

    await desk.until(are_all_leased)
    await desk.announce("mailgun1", "of-the-same-lane", other.address)
    await desk.until_read(other.id)

    [row] = await desk.of_source("mailgun1")
    assert {one["digester"] for one in await desk.of_source("resend")} == {row["digester"]}


async def test_what_takes_too_long_in_all_is_tried_again(
    desk: FetchDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request may be answered in time, and the mail take more than its lease all the same."""
    monkeypatch.setattr(fetch_mail, "MAIL_TIMEOUT_S", 0.2)
    desk.apis.faults[RESEND] = 0
    inbox = await desk.post.make("ann@in.test")

    await desk.announce("resend", "late", inbox.address)
    await desk.until_tried("resend")

    [row] = await desk.of_source("resend")
    assert row["error"] == ("unavailable: the provider did not hand over the whole mail in 0.2 s")
    desk.apis.faults.clear()
    monkeypatch.setattr(fetch_mail, "MAIL_TIMEOUT_S", 60)
    await desk.until_read(inbox.id)


async def test_mail_in_a_lane_of_an_older_version_is_moved_and_read(desk: FetchDesk) -> None:
    """A process of that version, which runs beside, knows no other lane."""
    desk.apis.faults[RESEND] = 500
    inbox = await desk.post.make("ann@in.test")
    for number in range(6):
        await desk.announce("resend", f"n{number}", inbox.address)
    await desk.until_tried("resend")
    older = update(MAILS).values(digester=LANES[1], due_ms=0)
    await desk.service.database.write(lambda tx: tx.execute(older) and None)
    desk.service.wakes.owed([LANES[1]])

    async def is_moved() -> bool:
        return {row["digester"] for row in await desk.of_source("resend")} == {FETCH_LANES[0]}

    await desk.until(is_moved)
    desk.apis.faults.clear()
    await desk.until_read(inbox.id, seconds=60)

    assert len(await desk.rows(MESSAGES)) == 6
    assert {row["digester"] for row in await desk.of_source("resend")} == {FETCH_LANES[0]}


def make_former(tx: Connection) -> None:
    """Undo the migration that made the lanes, and put the mail where it was then."""
    tx.execute(delete(LANE_ROWS).where(LANE_ROWS.c.route.in_(FETCH_LANES)))
    tx.execute(update(MAILS).values(digester=LANES[2]))


def migrate(tx: Connection) -> None:
    """Run that migration alone: those behind it have been run."""
    with Operations.context(MigrationContext.configure(tx)):
        m0022_fetch_lanes.upgrade()


async def test_mail_of_the_former_version_is_read_after_the_migration(desk: FetchDesk) -> None:
    desk.apis.faults[RESEND] = 500
    inbox = await desk.post.make("ann@in.test")
    for number in range(3):
        await desk.announce("resend", f"n{number}", inbox.address)
    await desk.until_tried("resend")
    await desk.service.stop()
    former = await open_database(desk.settings.database_url)
    await former.write(make_former)
    await former.write(migrate)
    await former.close()

    desk.apis.faults.clear()
    desk.service = await start_worker(desk.settings)
    await desk.until_read(inbox.id, seconds=60)

    assert {row["digester"] for row in await desk.of_source("resend")} == {FETCH_LANES[0]}
    assert len(await desk.rows(MESSAGES)) == 3


async def test_mail_of_a_deleted_source_waits_and_is_read_once_it_is_there_again(
    desk: FetchDesk,
) -> None:
    """Also where the new one has another id: it stands for the same account."""
    desk.apis.faults[RESEND] = 500
    inbox = await desk.post.make("ann@in.test")
    await desk.announce("resend", "of-a-deleted-source", inbox.address)
    await desk.until_tried("resend")
    sources = desk.service.manage.sources
    await sources.remove(OPERATOR, "resend")
    desk.apis.faults.clear()

    async def is_said() -> bool:
        [row] = await desk.of_source("resend")
        return "its source was deleted" in str(row["error"])

    await desk.until(is_said)
    [row] = await desk.of_source("resend")
    assert row["error"] == (
        "unavailable: its source was deleted; make one of resend with the account 'resend' again"
    )
    again = await sources.make(OPERATOR, "resend", desk.settings.sources["resend"])
    await desk.until_read(inbox.id, seconds=60)

    assert again.id != row["source"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_two_workers_fetch_each_mail_for_one_message(desk: FetchDesk) -> None:
    desk.apis.faults[RESEND] = 0
    inbox = await desk.post.make("ann@in.test")
    second = await start_worker(desk.settings)
    try:
        for number in range(12):
            await desk.announce("resend", f"n{number}", inbox.address)
            await desk.announce("mailgun", f"m{number}", inbox.address)
        await desk.until_asked(4)
        most = desk.apis.most
        desk.apis.faults.clear()
        await desk.until_read(inbox.id, seconds=60)
    finally:
        await second.stop()

    assert most <= 8, "four of each lane, whoever holds it"
    assert len(await desk.rows(MESSAGES)) == 24
    page = await desk.readers.read(inbox.id, workspace="default", after=0, limit=100)
    assert [one.seq for one in page.messages] == list(range(1, 25))
