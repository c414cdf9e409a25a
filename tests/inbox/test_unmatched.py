"""Mail that no inbox took is kept within bounds, and an inbox can adopt it once."""

import asyncio

import pytest

from mailonce.core.ids import public
from mailonce.core.inboxes.inbox import KnownInbox
from mailonce.core.inboxes.mail_items import FETCH_LANES, NO_INBOX, lane_of
from mailonce.core.mail.incoming import FetchContent, IncomingMail, MailEnvelope
from mailonce.core.work.states import State
from mailonce.errors import ClashError, MissingError, RefusedError
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.store.inboxes import inboxes, unmatched
from tests.inbox.conftest import RAW, Post, make_mail
from tests.manage.conftest import ALICE, BOB, Managed


@pytest.fixture
async def managed(post: Post) -> Managed:
    made = Managed(post.database, domains=["in.test"], unmatched_mails_max=3)
    await made.domains.apply_settings()
    return made


async def lose(post: Post, raw: bytes = RAW) -> str:
    """Accept a mail that no inbox takes; give its public id."""
    nowhere = KnownInbox(NO_INBOX, "default", "")
    accepted = await post.acceptance.accept(make_mail(raw), [nowhere])
    return public("mail", accepted.mails[0])


async def test_an_adopted_mail_is_numbered_and_owed_a_reading(post: Post, managed: Managed) -> None:
    inbox = await post.make("ann@in.test")
    await post.send(make_mail(b"first", "ann@in.test"))
    mail = await lose(post)

    adopted = await managed.inboxes.adopt(ALICE, mail, "ann@in.test")
    again = await managed.inboxes.adopt(ALICE, mail, inbox.id)

    lane = lane_of("mime", inbox=inbox.id, source="smtp")
    assert (adopted.inbox, adopted.seq, adopted.lane) == (inbox.id, 2, lane)
    assert again.seq == 2
    [row] = [one for one in await post.mails() if public("mail", one["key"]) == mail]
    assert (row["inbox"], row["seq"], row["state"]) == (inbox.id, 2, State.DUE)
    now = (await post.database.read(lambda tx: inboxes.find(tx, "default", [inbox.id])))[inbox.id]
    assert (now.seq, now.mails, now.bytes) == (2, 2, len(RAW) + 5)
    assert await post.database.read(
        lambda tx: unmatched.page(tx, "default", below=None, limit=10)
    ) == []  # fmt: skip


async def test_mail_to_be_fetched_is_adopted_into_the_lane_of_its_source(
    post: Post, managed: Managed
) -> None:
    inbox = await post.make("ann@in.test")
    envelope = MailEnvelope(recipients=("ann@in.test",), origin="provider")
    wanted = IncomingMail(envelope=envelope, content=FetchContent(what="test.mail", arguments={}))
    accepted = await post.acceptance.accept(wanted, [KnownInbox(NO_INBOX, "default", "")])

    adopted = await managed.inboxes.adopt(ALICE, public("mail", accepted.mails[0]), inbox.id)

    assert adopted.lane == lane_of("fetch", inbox=inbox.id, source="smtp") in FETCH_LANES
    assert [row["digester"] for row in await post.mails()] == [adopted.lane]


async def test_of_several_inboxes_that_adopt_it_at_once_one_has_it(
    post: Post, managed: Managed
) -> None:
    made = [await post.make(f"n{number}@in.test") for number in range(5)]
    mail = await lose(post)

    answers = await asyncio.gather(
        *(managed.inboxes.adopt(ALICE, mail, one.id) for one in made), return_exceptions=True
    )

    refused = [one for one in answers if isinstance(one, ClashError | RefusedError)]
    assert len(refused) == 4, answers
    counts = await post.database.read(lambda tx: inboxes.find(tx, "default", [o.id for o in made]))
    assert sorted(one.mails for one in counts.values()) == [0, 0, 0, 0, 1]


async def test_a_full_inbox_adopts_nothing(post: Post, managed: Managed) -> None:
    mail = await lose(post)
    for name, limits in (("a", {"mails_max": 0}), ("b", {"bytes_max": len(RAW) - 1})):
        await post.make(f"{name}@in.test", **limits)
        with pytest.raises(RefusedError, match="no room"):
            await managed.inboxes.adopt(ALICE, mail, f"{name}@in.test")

    assert [row["seq"] for row in await post.mails()] == [None]


async def test_another_workspace_can_adopt_none_of_it(post: Post, managed: Managed) -> None:
    mail = await lose(post)
    inbox = await post.make("bob@bob.test", workspace="ws_bob")

    with pytest.raises(MissingError):
        await managed.inboxes.adopt(BOB, mail, inbox.id)
    with pytest.raises(MissingError):
        await managed.inboxes.adopt(ALICE, mail, inbox.id)
    with pytest.raises(MissingError):
        await managed.inboxes.adopt(ALICE, "mail_x", inbox.id)


async def test_the_oldest_go_where_there_are_too_many(post: Post, managed: Managed) -> None:
    lost = [await lose(post, b"mail %d" % number) for number in range(5)]

    counts = await managed.purge.trim()

    assert (counts.mails, counts.blobs) == (2, 2)
    left = sorted(public("mail", row["key"]) for row in await post.mails())
    assert left == sorted(lost)[2:]


async def test_what_is_too_old_goes_and_what_was_adopted_stays(
    post: Post, managed: Managed
) -> None:
    await post.make("ann@in.test")
    adopted = await lose(post, b"one")
    await lose(post, b"two")
    await managed.inboxes.adopt(ALICE, adopted, "ann@in.test")

    counts = await InboxPurge(post.database, unmatched_mails_max=9, unmatched_days=-1).trim()

    assert counts.mails == 1
    assert [public("mail", row["key"]) for row in await post.mails()] == [adopted]
