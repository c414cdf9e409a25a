"""A mail is kept once in each inbox, numbered in the transaction that keeps it."""

import asyncio

import pytest
from sqlalchemy import func, select

from mailonce.core.inboxes import inbox as rules
from mailonce.core.inboxes.inbox import KnownInbox, NoRoomError
from mailonce.core.work.states import State
from mailonce.inbox import accept, inbox_room
from mailonce.inbox.accept import AcceptedMail
from mailonce.pipeline.record import FullError
from mailonce.queue.purge_inboxes import InboxPurge
from mailonce.store.inboxes import inboxes, refusals
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.schema.mail_tables import BLOBS
from tests.inbox.conftest import RAW, Post, make_mail


async def test_a_mail_is_numbered_and_owed_a_reading(post: Post) -> None:
    inbox = await post.make("ann@in.test")

    accepted = await post.send(make_mail())

    [row] = await post.mails()
    assert (row["inbox"], row["seq"], row["state"]) == (inbox.id, 1, State.DUE)
    assert (accepted.new, accepted.mails) == (1, (bytes(row["key"]),))
    counted = (await post.database.read(lambda tx: inboxes.find(tx, "default", [inbox.id])))[
        inbox.id
    ]
    assert (counted.seq, counted.mails, counted.bytes) == (1, 1, len(RAW))


async def test_fifty_mails_at_once_are_numbered_without_a_hole(post: Post) -> None:
    ann, bob = await post.make("ann@in.test"), await post.make("bob@in.test")

    await asyncio.gather(
        *(
            post.send(make_mail(RAW + str(number).encode(), "ann@in.test", "bob@in.test"))
            for number in range(50)
        )
    )

    rows = await post.mails()
    for inbox in (ann, bob):
        assert [row["seq"] for row in rows if row["inbox"] == inbox.id] == list(range(1, 51))
    kept = await post.database.read(lambda tx: tx.scalar(select(func.count()).select_from(BLOBS)))
    assert kept == 50


async def test_two_mails_for_many_inboxes_keep_their_bytes_once_and_count_in_each(
    post: Post,
) -> None:
    """There are more inboxes than one statement of SQLite writes rows."""
    made = [await post.make(f"n{number}@in.test") for number in range(70)]
    names = [inbox.address for inbox in made]

    await asyncio.gather(*(post.send(make_mail(RAW + end, *names)) for end in (b"one", b"two!")))

    rows = await post.mails()
    assert sorted((row["inbox"], row["seq"]) for row in rows) == sorted(
        (inbox.id, seq) for inbox in made for seq in (1, 2)
    )
    found = await post.database.read(
        lambda tx: inboxes.find(tx, "default", [inbox.id for inbox in made])
    )
    bytes_ = 2 * len(RAW) + 7
    assert {(one.seq, one.mails, one.bytes) for one in found.values()} == {(2, 2, bytes_)}
    brought = await post.database.read(lambda tx: tx.execute(select(BLOBS.c.mail)).scalars().all())
    assert {row["key"] for row in rows if not row["shares_blob"]} == set(brought)
    assert len(brought) == 2


async def test_the_same_bytes_again_are_a_copy(post: Post) -> None:
    await post.make("ann@in.test")

    answers = await asyncio.gather(*(post.send(make_mail()) for _ in range(20)))

    assert sum(answer.new for answer in answers) == 1
    assert len({answer.mails for answer in answers}) == 1
    assert [row["seq"] for row in await post.mails()] == [1]


async def test_mail_for_an_inbox_that_is_deleted_meanwhile_is_kept_without_a_number(
    post: Post,
) -> None:
    inbox = await post.make("ann@in.test")
    known = await post.acceptance.check("ann@in.test")
    assert isinstance(known, KnownInbox)

    await InboxPurge(post.database, unmatched_mails_max=0, unmatched_days=0).delete(
        [InboxPlace("default", inbox.id)], limit_s=60
    )
    accepted = await post.acceptance.accept(make_mail(), [known])

    [row] = await post.mails()
    assert (accepted.new, row["seq"]) == (1, None)


@pytest.mark.parametrize(
    ("address", "refusal"),
    [
        ("ann@in.test", None),
        ("ANN@IN.test", None),
        ("ann+shop@in.test", None),
        ('"ann"@in.test', None),
        ("bann@in.test", rules.UNKNOWN),
        ("ann@other.test", rules.UNKNOWN),
        ("an", rules.BAD_ADDRESS),
        ("old@in.test", rules.EXPIRED),
        ("full@in.test", rules.FULL_OF_MAILS),
    ],
)
async def test_an_address_leads_to_its_inbox_or_to_a_reason(
    post: Post, address: str, refusal: object
) -> None:
    inbox = await post.make("ann@in.test")
    await post.make("old@in.test", expires_ms=1)
    await post.make("full@in.test", mails_max=0)

    place = await post.acceptance.check(address)

    if refusal is None:
        assert isinstance(place, KnownInbox)
        assert place.id == inbox.id
    else:
        assert place == refusal


async def test_a_catch_all_takes_what_no_inbox_of_its_domain_does(post: Post) -> None:
    exact, rest = await post.make("ann@in.test"), await post.make("@in.test")

    places = [await post.acceptance.check(one) for one in ("ann@in.test", "who@in.test")]

    assert [place.id for place in places if isinstance(place, KnownInbox)] == [exact.id, rest.id]


async def test_what_was_looked_up_is_remembered_however_it_is_written(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(monkeypatch)
    inbox = await post.make("ann@in.test")
    unasked = post.acceptance.recall("ann@in.test")

    known = await post.acceptance.check("ann@in.test")

    assert unasked is None
    assert known == post.acceptance.recall("ANN@in.test")
    assert known == KnownInbox(inbox.id, "default", "ann@in.test")
    assert post.acceptance.recall("ann") == rules.BAD_ADDRESS
    post.acceptance.forget()
    assert post.acceptance.recall("ann@in.test") is None


async def test_a_mail_is_taken_at_once_only_while_its_inboxes_are_remembered(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(monkeypatch)
    await post.make("ann@in.test", mails_max=1)
    known = await post.acceptance.check("ann@in.test")
    assert isinstance(known, KnownInbox)
    told: asyncio.Queue[object] = asyncio.Queue()

    is_taken = post.acceptance.submit(make_mail(), [known], told.put_nowait)

    assert is_taken
    assert told.empty(), "nothing is told before it is durable"
    accepted = await told.get()
    assert isinstance(accepted, AcceptedMail)
    assert [bytes(row["key"]) for row in await post.mails()] == list(accepted.mails)
    with pytest.raises(NoRoomError):
        post.acceptance.submit(make_mail(RAW + b"x"), [known], told.put_nowait)
    post.acceptance.forget()
    assert not post.acceptance.submit(make_mail(RAW + b"x"), [known], told.put_nowait)


async def test_a_mail_for_two_workspaces_is_accepted_once_it_is_durable_in_both(
    post: Post,
) -> None:
    await post.make("ann@in.test")
    await post.make("bob@in.test", workspace="other")

    first = await post.send(make_mail(RAW, "ann@in.test", "bob@in.test"))
    again = await post.send(make_mail(RAW, "ann@in.test", "bob@in.test"))

    assert (first.new, again.new) == (2, 0)
    assert first.mails == again.mails
    assert {bytes(row["key"]) for row in await post.mails()} == set(first.mails)


async def test_a_mail_is_not_accepted_while_the_queue_is_full(post: Post) -> None:
    await post.make("ann@in.test")
    await post.recorder.close()

    with pytest.raises(FullError):
        await post.send(make_mail())

    assert await post.mails() == []


async def test_a_new_inbox_is_known_at_once(post: Post) -> None:
    before = await post.acceptance.check("ann@in.test")
    await post.make("ann@in.test")

    assert before == rules.UNKNOWN
    assert isinstance(await post.acceptance.check("ann@in.test"), KnownInbox)


async def test_a_refusal_is_stored_where_the_owner_sees_it(post: Post) -> None:
    inbox = await post.make("full@in.test", mails_max=0)
    for _ in range(3):
        post.acceptance.note_refusal("full@in.test", rules.FULL_OF_MAILS)
    post.acceptance.note_refusal("nobody@elsewhere.test", rules.UNKNOWN)

    await post.refusals.flush()

    [one] = await post.database.read(
        lambda tx: refusals.of_inbox(tx, "default", inbox.id, since_minute=0, most=10)
    )
    assert (one.address, one.reason, one.code, one.times) == ("full@in.test", "quota", 452, 3)


def remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe what was read for as long as a test may take."""
    monkeypatch.setattr(accept, "REMEMBER_S", 600)
    monkeypatch.setattr(inbox_room, "REMEMBER_S", 600)


@pytest.mark.parametrize("limit", [{"mails_max": 3}, {"bytes_max": 3 * len(RAW) + 3}])
async def test_what_was_taken_since_an_inbox_was_looked_up_fills_it(
    post: Post, limit: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(monkeypatch)
    await post.make("ann@in.test", **limit)

    for number in range(3):
        await post.send(make_mail(RAW + str(number).encode()))

    assert await post.acceptance.check("ann@in.test", size_bytes=1) == rules.FULL_OF_MAILS


async def test_a_mail_whose_size_nobody_announced_does_not_overfill_an_inbox(post: Post) -> None:
    inbox = await post.make("ann@in.test", bytes_max=2 * len(RAW))
    await post.send(make_mail())
    known = await post.acceptance.check("ann@in.test")
    assert isinstance(known, KnownInbox), "without a size there is room"

    for much in (len(RAW) + 1, 3 * len(RAW)):
        with pytest.raises(NoRoomError) as caught:
            await post.acceptance.accept(make_mail(b"x" * much), [known])
        wanted = rules.TOO_LARGE_FOR_IT if much > inbox.bytes_max else rules.FULL_OF_MAILS
        assert caught.value.refusal == wanted

    assert len(await post.mails()) == 1
    assert (await post.send(make_mail(RAW[::-1]))).new == 1, "what fits is taken"


async def test_of_several_inboxes_the_full_one_leaves_its_mail_to_an_operator(post: Post) -> None:
    full = await post.make("ann@in.test", bytes_max=10)
    empty = await post.make("bob@in.test")
    both = make_mail(RAW, "ann@in.test", "bob@in.test")

    accepted = await post.send(both)

    assert accepted.new == 2
    assert {row["inbox"] for row in await post.mails()} == {"", empty.id}
    await post.refusals.flush()
    [one] = await post.database.read(
        lambda tx: refusals.of_inbox(tx, "default", full.id, since_minute=0, most=10)
    )
    assert (one.address, one.reason, one.code) == ("ann@in.test", "quota", 552)


@pytest.mark.parametrize("limit", [{"mails_max": 3}, {"bytes_max": 3 * (len(RAW) + 2)}])
async def test_thirty_at_once_by_all_its_addresses_do_not_overfill_an_inbox(
    post: Post, limit: dict[str, int]
) -> None:
    inbox = await post.make("ann@in.test", **limit)
    addresses = [f"ann+{number:02}@in.test" for number in range(30)]
    # All of them were let in at RCPT before the first mail was there.
    places = await asyncio.gather(*(post.acceptance.check(one) for one in addresses))
    mails = [make_mail(RAW + b"%02d" % number) for number in range(30)]

    outcomes = await asyncio.gather(
        *(
            post.acceptance.accept(one, [place])
            for one, place in zip(mails, places, strict=True)
            if isinstance(place, KnownInbox)
        ),
        return_exceptions=True,
    )

    assert [isinstance(one, NoRoomError) for one in outcomes].count(True) == 27
    assert {row["inbox"] for row in await post.mails()} == {inbox.id}
    assert len(await post.mails()) == 3


async def test_copies_fill_nothing(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(monkeypatch)
    await post.make("ann@in.test", mails_max=2)
    known = await post.acceptance.check("ann@in.test")
    assert isinstance(known, KnownInbox)

    for _ in range(5):
        await post.acceptance.accept(make_mail(), [known])

    assert (await post.acceptance.accept(make_mail(RAW + b"x"), [known])).new == 1
    with pytest.raises(NoRoomError):
        await post.acceptance.accept(make_mail(RAW + b"y"), [known])


async def test_mail_that_is_being_stored_counts_when_an_inbox_is_read_again(post: Post) -> None:
    inbox = await post.make("ann@in.test", mails_max=5)
    room = inbox_room.InboxRoom()
    room.refresh(inbox, 0.0)
    room.begin([inbox.id], 10)

    room.refresh(inbox, 5.0)

    assert (room.use_of(inbox).mails, room.use_of(inbox).bytes) == (1, 10)
    room.end([inbox.id], 10)
    room.refresh(inbox, 10.0)
    assert room.use_of(inbox).mails == 0
