"""Who waits for mail is woken by it, reads it in order, and passes none by."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from sqlalchemy import insert, update

from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.work.states import State
from mailonce.errors import MissingError, ParseError, UnavailableError
from mailonce.inbox import waiting
from mailonce.inbox.waiting import CursorLostError, InboxPage, InboxReaders
from mailonce.store.inboxes import messages, purge
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.schema.mail_tables import INBOXES, MAILS, MESSAGES
from tests.inbox.conftest import RAW, Post, make_mail


@pytest_asyncio.fixture
async def readers(post: Post) -> AsyncIterator[InboxReaders]:
    made = InboxReaders(post.database, post.clock)
    made.start()
    yield made
    await made.stop()


async def bring(post: Post, inbox: Inbox, many: int = 1) -> list[bytes]:
    """Accept some mail that nobody has read yet; give its keys."""
    keys: list[bytes] = []
    for _ in range(many):
        raw = RAW + post.clock.new_id().hex().encode()
        keys += (await post.send(make_mail(raw, inbox.address))).mails
    return keys


async def keep(post: Post, inbox: Inbox, key: bytes, seq: int) -> None:
    """Do what reading a mail does."""
    message = f"msg_{key.hex()}"
    row = {
        "id": message, "workspace": "default", "inbox": inbox.id, "seq": seq, "mail": key,
        "accepted_ms": 0, "message_id": "", "thread": "", "kind": "mail", "sender": "",
        "subject": "", "document": b"{}",
    }  # fmt: skip

    def work(tx: object) -> None:
        tx.execute(insert(MESSAGES).values(**row))  # type: ignore[attr-defined]
        tx.execute(update(MAILS).where(MAILS.c.key == key).values(message=message))  # type: ignore[attr-defined]

    await post.database.write(work)


async def delete_message(post: Post, inbox: Inbox, seq: int) -> None:
    page = await post.database.read(
        lambda tx: messages.page(tx, inbox.id, after=seq - 1, until=seq, limit=1, bytes_max=100)
    )
    name = page.messages[0].id
    assert await post.database.write(lambda tx: purge.delete_message(tx, inbox.id, name))


async def read(
    readers: InboxReaders, inbox: Inbox, after: int = 0, *, wait_s: float = 0, limit: int = 100
) -> InboxPage:
    return await readers.read(
        inbox.id, workspace="default", after=after, limit=limit, wait_s=wait_s
    )


async def test_mail_that_came_before_the_wait_is_there_at_once(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    [key] = await bring(post, inbox)
    await keep(post, inbox, key, 1)

    page = await read(readers, inbox, wait_s=20)

    assert [(one.seq, one.id) for one in page.messages] == [(1, f"msg_{key.hex()}")]
    assert page.next == 1


async def test_a_waiter_is_woken_when_a_message_is_kept(post: Post, readers: InboxReaders) -> None:
    inbox = await post.make("ann@in.test")
    waiters = [asyncio.create_task(read(readers, inbox, wait_s=20)) for _ in range(100)]
    while readers.waiting < 100:
        await asyncio.sleep(0)

    [key] = await bring(post, inbox)
    await keep(post, inbox, key, 1)
    readers.wake([inbox.id])

    assert [[one.seq for one in (await waiter).messages] for waiter in waiters] == [[1]] * 100
    assert readers.waiting == 0


async def test_a_lost_hint_costs_a_second_and_no_mail(post: Post, readers: InboxReaders) -> None:
    inbox = await post.make("ann@in.test")
    waiter = asyncio.create_task(read(readers, inbox, wait_s=20))
    while not readers.waiting:
        await asyncio.sleep(0)

    [key] = await bring(post, inbox)
    await keep(post, inbox, key, 1)

    assert [one.seq for one in (await waiter).messages] == [1]


async def test_what_comes_behind_an_unread_mail_waits_for_it(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    first, second, third = await bring(post, inbox, 3)
    await keep(post, inbox, first, 1)
    await keep(post, inbox, third, 3)

    before = await read(readers, inbox)
    await keep(post, inbox, second, 2)
    after = await read(readers, inbox, before.next)

    assert ([one.seq for one in before.messages], before.next) == ([1], 1)
    assert ([one.seq for one in after.messages], after.next) == ([2, 3], 3)
    assert (before.unread, after.unread) == (2, 0)


async def test_a_mail_that_was_given_up_keeps_nobody_waiting(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    first, second = await bring(post, inbox, 2)
    await keep(post, inbox, second, 2)
    dead = update(MAILS).where(MAILS.c.key == first).values(state=int(State.DEAD))
    await post.database.write(lambda tx: tx.execute(dead) and None)

    page = await read(readers, inbox)

    assert [one.seq for one in page.messages] == [2]


async def test_a_full_page_ends_at_its_last_message(post: Post, readers: InboxReaders) -> None:
    inbox = await post.make("ann@in.test")
    for number, key in enumerate(await bring(post, inbox, 3), 1):
        await keep(post, inbox, key, number)

    page = await read(readers, inbox, limit=2)

    assert ([one.seq for one in page.messages], page.next) == ([1, 2], 2)


async def test_a_cursor_that_fell_off_says_what_was_lost(post: Post, readers: InboxReaders) -> None:
    inbox = await post.make("ann@in.test")
    forgotten = update(INBOXES).values(seq=9, forgotten_seq=7)
    await post.database.write(lambda tx: tx.execute(forgotten) and None)

    with pytest.raises(CursorLostError) as lost:
        await read(readers, inbox, 3)

    assert (lost.value.oldest_seq, lost.value.lost) == (8, 4)
    assert (await read(readers, inbox, 0)).next == 9
    assert (await read(readers, inbox, 7)).next == 9


async def test_a_reader_is_told_of_deleted_mail_before_it_reads_on(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    for number, key in enumerate(await bring(post, inbox, 8), 1):
        await keep(post, inbox, key, number)
    for number in (1, 2, 4, 5, 8):
        await delete_message(post, inbox, number)

    story: list[object] = []
    after = 0
    while after < 8:
        try:
            page = await read(readers, inbox, after, wait_s=20)
        except CursorLostError as lost:
            story.append((lost.lost, lost.oldest_seq))
            after = lost.next
        else:
            story.append([one.seq for one in page.messages])
            after = page.next

    assert story == [[3], (2, 6), [6, 7], (1, 9)]
    assert (await read(readers, inbox, 8)).messages == []


async def test_a_number_without_a_message_is_no_loss(post: Post, readers: InboxReaders) -> None:
    """A copy of a message has a number of its own, and a mail that was given up has one."""
    inbox = await post.make("ann@in.test")
    first, copy, third, fourth = await bring(post, inbox, 4)
    await keep(post, inbox, first, 1)
    same = update(MAILS).where(MAILS.c.key == copy).values(message=f"msg_{first.hex()}")
    await post.database.write(lambda tx: tx.execute(same) and None)
    await keep(post, inbox, third, 3)
    await keep(post, inbox, fourth, 4)
    await delete_message(post, inbox, 4)

    page = await read(readers, inbox, 1)

    assert ([one.seq for one in page.messages], page.next) == ([3], 3)


async def test_a_page_before_deleted_mail_that_has_no_message_is_no_reason_to_wait(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    first, copy, third = await bring(post, inbox, 3)
    await keep(post, inbox, first, 1)
    same = update(MAILS).where(MAILS.c.key == copy).values(message="msg_elsewhere")
    await post.database.write(lambda tx: tx.execute(same) and None)
    await keep(post, inbox, third, 3)
    await delete_message(post, inbox, 3)

    page = await asyncio.wait_for(read(readers, inbox, 1, wait_s=25), 20)

    assert (page.messages, page.next) == ([], 2)


async def test_a_cursor_that_was_never_given_is_refused(post: Post, readers: InboxReaders) -> None:
    inbox = await post.make("ann@in.test")

    with pytest.raises(ParseError, match="last number given"):
        await read(readers, inbox, 1, wait_s=20)


async def test_who_waits_for_many_is_woken_by_the_first(post: Post, readers: InboxReaders) -> None:
    made = [await post.make(f"n{number}@in.test") for number in range(50)]
    cursors = {inbox.id: 0 for inbox in made}
    waiter = asyncio.create_task(
        readers.read_many(cursors, workspace="default", limit=10, wait_s=20)
    )
    while readers.waiting < 50:
        await asyncio.sleep(0)

    [key] = await bring(post, made[7])
    await keep(post, made[7], key, 1)
    readers.wake([made[7].id])
    pages = await waiter

    with_mail = [
        inbox for inbox, page in pages.items() if isinstance(page, InboxPage) and page.messages
    ]
    assert with_mail == [made[7].id]
    assert len(pages) == 50
    assert (readers.waiting, readers._waiters) == (0, {})


async def test_many_inboxes_are_read_within_a_bound_of_bytes(
    post: Post, readers: InboxReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PAGE_BYTES_MAX", 3)
    made = [await post.make(f"n{number}@in.test") for number in range(4)]
    for inbox in made:
        for number, key in enumerate(await bring(post, inbox, 2), 1):
            await keep(post, inbox, key, number)

    cursors, seen, rounds = {inbox.id: 0 for inbox in made}, 0, 0
    while seen < 8:
        pages = await readers.read_many(cursors, workspace="default", limit=10)
        rounds += 1
        for name, page in pages.items():
            assert isinstance(page, InboxPage)
            seen += len(page.messages)
            cursors[name] = page.next

    assert rounds == 4
    assert set(cursors.values()) == {2}


async def test_of_many_inboxes_each_says_for_itself_what_is_wrong(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    for number, key in enumerate(await bring(post, inbox, 2), 1):
        await keep(post, inbox, key, number)
    await delete_message(post, inbox, 2)
    cursors = {inbox.id: 1, "inb_gone": 0}

    pages = await readers.read_many(cursors, workspace="default", limit=10, wait_s=20)

    assert isinstance(pages[inbox.id], CursorLostError)
    assert isinstance(pages["inb_gone"], MissingError)


async def test_a_wait_ends_when_its_inbox_is_deleted(post: Post, readers: InboxReaders) -> None:
    inbox = await post.make("ann@in.test")
    waiter = asyncio.create_task(read(readers, inbox, wait_s=20))
    while not readers.waiting:
        await asyncio.sleep(0)

    await post.database.write(lambda tx: purge.mark(tx, [InboxPlace("default", inbox.id)]))

    with pytest.raises(MissingError):
        await waiter


async def test_a_waiter_that_is_cancelled_leaves_no_trace(
    post: Post, readers: InboxReaders
) -> None:
    inbox = await post.make("ann@in.test")
    waiter = asyncio.create_task(read(readers, inbox, wait_s=20))
    while not readers.waiting:
        await asyncio.sleep(0)

    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)

    assert readers.waiting == 0
    assert readers._waiters == {}


async def test_one_too_many_is_told_to_come_again(
    post: Post, readers: InboxReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "WORKSPACE_WAITERS_MAX", 1)
    inbox = await post.make("ann@in.test")
    waiter = asyncio.create_task(read(readers, inbox, wait_s=20))
    while not readers.waiting:
        await asyncio.sleep(0)

    with pytest.raises(UnavailableError):
        await read(readers, inbox, wait_s=1)

    readers.release()
    assert (await waiter).messages == []
