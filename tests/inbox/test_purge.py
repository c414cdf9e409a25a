"""What is deleted is gone as a whole, in slices; what others refer to stays."""

import asyncio
import dataclasses
from functools import partial
from hashlib import sha256

import msgspec
import pytest
from sqlalchemy import Connection, Table, delete, func, select, update

from mailonce.core.inboxes import inbox as rules
from mailonce.core.inboxes.inbox import Inbox, KnownInbox
from mailonce.core.inboxes.message_items import FetchedContent, MessageItem
from mailonce.queue import purge_inboxes
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.store.dialects.sqlite.database import SqliteDatabase
from mailonce.store.inboxes import inboxes, purge
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.schema.mail_tables import (
    ADDRESSES,
    ATTACHMENTS,
    BLOBS,
    DIGEST_ATTEMPTS,
    INBOXES,
    MAIL_REFUSALS,
    MAILS,
    MESSAGES,
)
from tests.inbox.conftest import RAW, Post, make_mail
from tests.manage.conftest import ALICE, Managed
from tests.store.scans import scans_of

TABLES: tuple[Table, ...] = (
    ADDRESSES, ATTACHMENTS, BLOBS, DIGEST_ATTEMPTS, INBOXES, MAIL_REFUSALS, MAILS, MESSAGES,
)  # fmt: skip


@pytest.fixture
def purging(post: Post) -> InboxPurge:
    return InboxPurge(post.database, unmatched_mails_max=100, unmatched_days=7)


def place(inbox: Inbox) -> InboxPlace:
    return InboxPlace(inbox.workspace, inbox.id)


async def rows(post: Post) -> dict[str, int]:
    """Count the rows of every table that has any."""

    def work(tx: Connection) -> dict[str, int]:
        counts = {
            table.name: tx.scalar(select(func.count()).select_from(table)) or 0 for table in TABLES
        }
        return {name: many for name, many in counts.items() if many}

    return await post.database.read(work)


async def dangling(post: Post) -> int:
    """Count mails and attachments whose bytes are gone."""

    def work(tx: Connection) -> int:
        missing = 0
        for table in (MAILS, ATTACHMENTS):
            query = select(func.count()).select_from(
                table.join(
                    BLOBS,
                    (BLOBS.c.workspace == table.c.workspace) & (BLOBS.c.sha256 == table.c.sha256),
                    isouter=True,
                )
            )
            missing += tx.scalar(query.where(BLOBS.c.sha256.is_(None))) or 0
        return missing

    return await post.database.read(work)


async def test_a_deleted_inbox_leaves_nothing(post: Post, purging: InboxPurge) -> None:
    inbox = await post.make("ann@in.test")
    for number in range(5):
        accepted = await post.send(make_mail(RAW + str(number).encode()))
        await post.read(accepted.mails[0], b"a picture", b"a text %d" % number)
    await post.send(make_mail(RAW + b"not read yet"))
    post.acceptance.note_refusal("ann@in.test", rules.FULL_OF_MAILS)
    await post.refusals.flush()

    report = await purging.delete([place(inbox)], limit_s=60)

    assert report.is_complete
    assert await rows(post) == {}
    size = 6 * len(RAW) + 5 + len(b"not read yet") + len(b"a picture") + 5 * len(b"a text 0")
    assert report.counts._asdict() == {
        "inboxes": 1, "addresses": 1, "mails": 6, "messages": 5, "attachments": 10, "refusals": 1,
        "blobs": 12, "content_bytes": size, "deliveries": 0, "posts": 0,
    }  # fmt: skip


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_deletion_reads_no_whole_table_on_the_only_writer(
    post: Post, purging: InboxPurge
) -> None:
    people = ["ann@in.test", "bea@in.test", "cyd@in.test"]
    made = [place(await post.make(person)) for person in people]
    for number in range(3):
        accepted = await post.send(make_mail(RAW + b"%d" % number, *people))
        for key in accepted.mails:
            await post.read(key, b"a picture", b"a text %d" % number)
    database = post.database
    assert isinstance(database, SqliteDatabase)

    with scans_of(database) as scans:
        report = await purging.delete(made, limit_s=60)

    assert report.is_complete
    assert await rows(post) == {}
    assert scans == []


async def test_bytes_that_another_inbox_has_stay_until_it_goes(
    post: Post, purging: InboxPurge
) -> None:
    ann, bea = await post.make("ann@in.test"), await post.make("bea@in.test")
    accepted = await post.send(make_mail(RAW, "ann@in.test", "bea@in.test"))
    for key in accepted.mails:
        await post.read(key, b"shared")

    first = await purging.delete([place(ann)], limit_s=60)
    between = await rows(post)
    second = await purging.delete([place(bea)], limit_s=60)

    assert (first.counts.blobs, second.counts.blobs) == (0, 2)
    assert between["blobs"] == 2
    assert await rows(post) == {}


@pytest.mark.parametrize("how", ["one_mail", "one_batch", "one_by_one"])
async def test_bytes_stay_until_the_last_of_their_mails_goes(
    post: Post, purging: InboxPurge, how: str
) -> None:
    """Whichever of them brought the bytes, and whichever goes first."""
    for n, order in enumerate([(0, 1, 2), (1, 2, 0), (2, 0, 1)]):
        made = [await post.make(f"n{number}-{n}@in.test") for number in range(3)]
        if how == "one_mail":
            await post.send(make_mail(RAW, *(one.address for one in made)))
        elif how == "one_batch":
            await asyncio.gather(*(post.send(make_mail(RAW, one.address)) for one in made))
        else:
            for one in made:
                await post.send(make_mail(RAW, one.address))

        left = []
        for number in order:
            await purging.delete([place(made[number])], limit_s=60)
            left.append((await rows(post)).get("blobs", 0))
            assert await dangling(post) == 0

        assert left == [1, 1, 0], order


async def test_bytes_that_were_fetched_for_a_mail_stay_as_long_as_it_does(
    post: Post, purging: InboxPurge
) -> None:
    """They take the place of those that it came with, which nobody needs then."""
    ann = await post.make("ann@in.test")
    key = (await post.send(make_mail())).mails[0]
    entry, _ = await post.reading(key)
    [item] = entry.items
    assert isinstance(item, MessageItem)
    fetched = FetchedContent(sha256(b"fetched").digest(), "mime", b"fetched")
    item = dataclasses.replace(item, fetched=fetched)
    await post.recorder.record(msgspec.structs.replace(entry, items=(item,)))

    await post.database.write(lambda tx: tx.execute(update(BLOBS).values(used_ms=0)))
    swept = await purging.sweep()
    between = await dangling(post)
    report = await purging.delete([place(ann)], limit_s=60)

    assert (swept.content_bytes, between) == (len(RAW), 0)
    assert report.counts.content_bytes == len(b"fetched")
    assert await rows(post) == {}


async def test_other_workspaces_keep_their_own_bytes(post: Post, purging: InboxPurge) -> None:
    ann = await post.make("ann@in.test")
    await post.make("bob@bob.test", workspace="ws_bob")
    await post.send(make_mail(RAW, "ann@in.test", "bob@bob.test"))

    await purging.delete([place(ann)], limit_s=60)
    as_a_stranger = await purging.delete(
        [InboxPlace("default", inbox) for inbox in await ids(post)], limit_s=60
    )

    assert await dangling(post) == 0
    assert (await rows(post))["addresses"] == 1
    assert as_a_stranger.counts.addresses == 0


async def ids(post: Post) -> list[str]:
    return await post.database.read(lambda tx: list(tx.scalars(select(INBOXES.c.id))))


async def test_a_crash_between_slices_is_gone_on_with(
    post: Post, purging: InboxPurge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge_inboxes, "SLICE_MAILS", 2)
    inbox = await post.make("ann@in.test")
    for number in range(5):
        await post.send(make_mail(RAW + str(number).encode()))

    cut_short = await purging.delete([place(inbox)], limit_s=-1)
    await post.database.write(lambda tx: purge.purge(tx, inbox.id, most=2))
    between = await rows(post)
    by_name = await post.database.read(lambda tx: inboxes.find(tx, "default", [inbox.id]))
    report = await purging.expire()

    assert not cut_short.is_complete
    assert by_name == {}
    assert (between["inboxes"], between["mails"]) == (1, 3)
    post.acceptance.forget()
    assert await post.acceptance.check("ann@in.test") == rules.UNKNOWN
    assert (report.is_complete, report.counts.mails) == (True, 3)
    assert await rows(post) == {}


async def test_inboxes_past_their_time_are_deleted_and_others_are_not(
    post: Post, purging: InboxPurge
) -> None:
    now_ms = (await post.database.head()).now_ms
    await post.make("old@in.test", expires_ms=now_ms - 1)
    later = await post.make("later@in.test", expires_ms=now_ms + 3_600_000)
    forever = await post.make("forever@in.test")

    await purging.expire()

    assert set(await ids(post)) == {later.id, forever.id}


async def test_many_who_delete_the_same_at_once_do_not_stand_in_each_others_way(
    post: Post, purging: InboxPurge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge_inboxes, "SLICE_MAILS", 3)
    made = [await post.make(f"n{number}@in.test") for number in range(4)]
    for number in range(8):
        mail = make_mail(RAW + str(number).encode(), *(one.address for one in made))
        for key in (await post.send(mail)).mails:
            await post.read(key, b"same", b"%d" % number)
    orders = [made, made[::-1], made[2:] + made[:2]]

    reports = await asyncio.gather(
        *(purging.delete([place(one) for one in order], limit_s=60) for order in orders)
    )

    assert sum(report.counts.inboxes for report in reports) == 4
    assert sum(report.counts.mails for report in reports) == 32
    assert await rows(post) == {}


async def test_mail_that_comes_while_its_inbox_is_deleted_is_kept_with_its_bytes(
    post: Post, purging: InboxPurge
) -> None:
    """Each mail that was acknowledged was deleted with the inbox, or is there with its bytes."""
    for round_ in range(6):
        inbox = await post.make(f"n{round_}@in.test")
        known = await post.acceptance.check(inbox.address)
        assert isinstance(known, KnownInbox)
        mails = [make_mail(b"%d %d" % (round_, number)) for number in range(20)]

        deletion = asyncio.create_task(purging.delete([place(inbox)], limit_s=60))
        accepted = await asyncio.gather(*(post.acceptance.accept(mail, [known]) for mail in mails))
        report = await deletion

        left = [row for row in await post.mails() if row["inbox"] == inbox.id]
        assert all(row["seq"] is None for row in left)
        assert len(left) + report.counts.mails == 20
        assert len(accepted) == 20
        assert await dangling(post) == 0
    assert await ids(post) == []


async def test_the_same_bytes_accepted_and_deleted_at_once_leave_nothing_dangling(
    post: Post, purging: InboxPurge
) -> None:
    stays = await post.make("stays@in.test")
    for number in range(15):
        raw = b"bytes %d" % number
        goes = await post.make(f"g{number}@in.test")
        await post.send(make_mail(raw, goes.address))

        await asyncio.gather(
            purging.delete([place(goes)], limit_s=60), post.send(make_mail(raw, stays.address))
        )

        assert await dangling(post) == 0
    assert (await rows(post))["blobs"] == 15


async def test_who_has_read_a_mail_that_is_deleted_by_then_leaves_no_message(
    post: Post, purging: InboxPurge
) -> None:
    inbox = await post.make("ann@in.test")
    key = (await post.send(make_mail())).mails[0]
    entry, _ = await post.reading(key, b"an attachment")

    await purging.delete([place(inbox)], limit_s=60)
    await post.recorder.record(entry)

    assert {"messages", "attachments", "mails", "inboxes"}.isdisjoint(await rows(post))
    await post.database.write(lambda tx: tx.execute(update(BLOBS).values(used_ms=0)))
    await purging.sweep()
    assert await rows(post) == {}


async def test_who_reads_a_mail_while_it_is_deleted_leaves_no_message(
    post: Post, purging: InboxPurge
) -> None:
    for number in range(10):
        inbox = await post.make(f"n{number}@in.test")
        keys = [
            (await post.send(make_mail(b"%d %d" % (number, n), inbox.address))).mails[0]
            for n in range(5)
        ]
        entries = [(await post.reading(key, key))[0] for key in keys]

        await asyncio.gather(
            purging.delete([place(inbox)], limit_s=60),
            *(post.recorder.record(entry) for entry in entries),
        )

    assert {"messages", "attachments", "mails", "inboxes"}.isdisjoint(await rows(post))


async def test_a_deleted_message_makes_room_and_is_told_to_old_cursors(
    post: Post, purging: InboxPurge
) -> None:
    inbox = await post.make("ann@in.test")
    keys = [(await post.send(make_mail(b"mail %d" % number))).mails[0] for number in range(3)]
    messages = [await post.read(key, b"both", b"own %d" % n) for n, key in enumerate(keys)]

    counts = await purging.delete_message(inbox.id, messages[1])
    again = await purging.delete_message(inbox.id, messages[1])

    assert counts is not None
    assert (counts.mails, counts.messages, counts.attachments, counts.blobs) == (1, 1, 2, 2)
    assert again is None
    now = (await post.database.read(lambda tx: inboxes.find(tx, "default", [inbox.id])))[inbox.id]
    assert (now.mails, now.bytes, now.seq, now.forgotten_seq) == (2, 12, 3, 2)
    assert await dangling(post) == 0
    assert await purging.delete_message(inbox.id, "msg_x") is None


async def test_bytes_that_nobody_refers_to_are_found_and_others_are_not(
    post: Post, purging: InboxPurge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge_inboxes, "SWEEP_ROWS", 2)
    await post.make("ann@in.test")
    for number in range(7):
        key = (await post.send(make_mail(b"mail %d" % number))).mails[0]
        if number % 2:
            gone = delete(MAILS).where(MAILS.c.key == key)
            await post.database.write(partial(Connection.execute, statement=gone))

    young = await purging.sweep()
    await post.database.write(lambda tx: tx.execute(update(BLOBS).values(used_ms=0)))
    old = await purging.sweep()

    assert (young.blobs, old.blobs) == (0, 3)
    assert (await rows(post))["blobs"] == 4
    assert await dangling(post) == 0


async def test_mail_that_comes_while_its_inbox_is_rotated_is_kept_in_order(post: Post) -> None:
    managed = Managed(post.database)
    inbox = await post.make("ann@in.test")

    async def rotate() -> None:
        for _ in range(5):
            await managed.inboxes.rotate(ALICE, inbox.id, grace_s=600)

    mails = [make_mail(b"mail %d" % number) for number in range(40)]
    turning = asyncio.create_task(rotate())
    await asyncio.gather(*(post.send(mail) for mail in mails))
    await turning

    assert [row["seq"] for row in await post.mails()] == list(range(1, 41))
    assert {row["inbox"] for row in await post.mails()} == {inbox.id}
    assert await dangling(post) == 0
