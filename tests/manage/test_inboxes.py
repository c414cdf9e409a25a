"""Inboxes are made once for a key, found by what leads to them, and have an end."""

import asyncio
from collections import Counter

import pytest
from sqlalchemy import func, select, update

from mailonce.core.access import Caller, Scope
from mailonce.core.inboxes.inbox_request import InboxRequest
from mailonce.errors import AccessError, ClashError, MissingError, ParseError, RefusedError
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes
from mailonce.store.schema.mail_tables import ADDRESSES, INBOXES
from tests.manage.conftest import ALICE, BOB, Managed


async def count(database: Database) -> tuple[int, int]:
    tables = (INBOXES, ADDRESSES)
    queries = [select(func.count()).select_from(table) for table in tables]
    found = await database.read(lambda tx: [tx.scalar(query) or 0 for query in queries])
    return found[0], found[1]


async def test_an_inbox_can_be_found_by_whatever_leads_to_it(managed: Managed) -> None:
    made = await managed.make(local="Ann", metadata={"run": 7})

    for name in (made.id, "ann@in.test", "ANN@In.Test", "ann+tag@in.test", '"ann"@in.test.'):
        assert await managed.inboxes.find(ALICE, name) == made
    for name in ("bann@in.test", "ann@other.test", "nn@in.test", "inb_0", "", "%@in.test", "\0"):
        with pytest.raises(MissingError):
            await managed.inboxes.find(ALICE, name)
    with pytest.raises(MissingError):
        await managed.inboxes.find(BOB, made.id)


async def test_an_agent_expects_mail_in_its_own_inboxes_and_those_of_operators(
    managed: Managed,
) -> None:
    one, other = (Caller("default", Scope.AGENT, key) for key in ("key_1", "key_2"))
    own, shared = await managed.make(one), await managed.make(ALICE)

    assert (await managed.inboxes.find_for_expectation(one, own.address)).id == own.id
    assert (await managed.inboxes.find_for_expectation(ALICE, own.address)).id == own.id
    for agent in (one, other):
        assert (await managed.inboxes.find_for_expectation(agent, shared.id)).id == shared.id
    for name in (own.id, own.address):
        with pytest.raises(MissingError):
            await managed.inboxes.find_for_expectation(other, name)


async def test_an_agent_takes_no_address_out_of_a_catch_all_and_makes_none(
    managed: Managed,
) -> None:
    agent = Caller("default", Scope.AGENT, "key_1")
    before = await managed.make(agent, local="before")
    with pytest.raises(AccessError, match="catch-all"):
        await managed.make(agent, local="*")

    rest = await managed.make(ALICE, local="*")
    with pytest.raises(AccessError, match="catch-all"):
        await managed.make(agent, local="boss")
    random, of_operator = await managed.make(agent), await managed.make(ALICE, local="ann")

    found = [
        await managed.inboxes.find_for_mail(ALICE, name)
        for name in ("boss@in.test", before.address, random.address, of_operator.address)
    ]
    assert [one.id for one in found] == [rest.id, before.id, random.id, of_operator.id]
    await managed.inboxes.delete(ALICE, [rest])
    assert (await managed.make(agent, local="boss")).address == "boss@in.test"


async def test_mail_for_an_address_that_only_a_catch_all_has_finds_it(managed: Managed) -> None:
    ann = await managed.make(local="ann")
    rest = await managed.make(local="*")

    found = [
        await managed.inboxes.find_for_mail(ALICE, name)
        for name in ("ann@in.test", "ann+a@in.test", ann.id, "who@in.test", "*@in.test", rest.id)
    ]

    assert [one.id for one in found] == [ann.id, ann.id, ann.id, rest.id, rest.id, rest.id]
    with pytest.raises(MissingError):
        await managed.inboxes.find(ALICE, "who@in.test")
    for name in ("who@other.test", "inb_x"):
        with pytest.raises(MissingError):
            await managed.inboxes.find_for_mail(ALICE, name)
    with pytest.raises(MissingError):
        await managed.inboxes.find_for_mail(BOB, "who@in.test")


async def test_random_addresses_are_of_the_first_domain_and_differ(managed: Managed) -> None:
    made = await managed.inboxes.make(ALICE, [InboxRequest()] * 1000)

    addresses = {one.address for one in made.inboxes}
    assert len(addresses) == len({one.id for one in made.inboxes}) == 1000
    assert all(one.endswith("@in.test") and len(one) >= 24 for one in addresses)
    assert await count(managed.database) == (1000, 1000)


async def test_a_thousand_inboxes_asked_for_twice_at_once_are_made_once(managed: Managed) -> None:
    asked = [InboxRequest(local=f"run-{number}") for number in range(1000)]

    answers = await asyncio.gather(
        *(managed.inboxes.make(ALICE, asked, key="run-1") for _ in range(2))
    )

    assert Counter(one.is_replay for one in answers) == {False: 1, True: 1}
    assert answers[0].inboxes == answers[1].inboxes
    assert await count(managed.database) == (1000, 1000)


async def test_of_ten_with_one_key_at_once_one_makes_the_inbox(managed: Managed) -> None:
    answers = await asyncio.gather(
        *(managed.inboxes.make(ALICE, [InboxRequest()], key="a-key") for _ in range(10))
    )

    assert Counter(one.is_replay for one in answers) == {False: 1, True: 9}
    assert len({one.inboxes[0].address for one in answers}) == 1


async def test_a_key_stands_for_one_content_in_one_workspace(managed: Managed) -> None:
    await managed.domains.add(BOB, "bob.test")
    first = await managed.inboxes.make(ALICE, [InboxRequest(ttl_s=60)], key="k")

    for other in ([InboxRequest(ttl_s=61)], [InboxRequest(ttl_s=60)] * 2, [InboxRequest()]):
        with pytest.raises(ClashError, match="Idempotency-Key"):
            await managed.inboxes.make(ALICE, other, key="k")
    of_bob = await managed.inboxes.make(BOB, [InboxRequest(ttl_s=61)], key="k")
    without = await managed.inboxes.make(ALICE, [InboxRequest(ttl_s=60)])

    ids = {one.inboxes[0].id for one in (first, of_bob, without)}
    assert len(ids) == 3


async def test_of_two_with_one_key_and_other_content_at_once_one_is_refused(
    managed: Managed,
) -> None:
    answers = await asyncio.gather(
        *(managed.inboxes.make(ALICE, [InboxRequest(ttl_s=n)], key="k") for n in (60, 61)),
        return_exceptions=True,
    )

    assert sum(isinstance(one, ClashError) for one in answers) == 1
    assert await count(managed.database) == (1, 1)


async def test_a_key_is_free_again_when_its_inbox_is_deleted(managed: Managed) -> None:
    first = (await managed.inboxes.make(ALICE, [InboxRequest()], key="k")).inboxes[0]
    await managed.inboxes.delete(ALICE, [first])

    again = await managed.inboxes.make(ALICE, [InboxRequest()], key="k")

    assert not again.is_replay
    assert again.inboxes[0].id != first.id


async def test_an_address_is_given_once(managed: Managed) -> None:
    answers = await asyncio.gather(
        *(managed.make(local="ann") for _ in range(10)), return_exceptions=True
    )

    assert sum(isinstance(one, ClashError) for one in answers) == 9
    assert await count(managed.database) == (1, 1)


async def test_of_a_batch_with_a_taken_address_nothing_is_made(managed: Managed) -> None:
    await managed.make(local="ann")
    batch = [InboxRequest(), InboxRequest(local="ann"), InboxRequest(local="new")]

    for asked in (batch, [InboxRequest(local="twin"), InboxRequest(local="twin")]):
        with pytest.raises(ClashError, match="leads to an inbox"):
            await managed.inboxes.make(ALICE, asked)

    assert await count(managed.database) == (1, 1)


async def test_two_batches_in_opposite_order_do_not_wait_for_each_other(managed: Managed) -> None:
    names = [f"n{number}" for number in range(50)]
    orders = [names, names[::-1]] * 3

    answers = await asyncio.gather(
        *(managed.inboxes.make(ALICE, [InboxRequest(local=one) for one in o]) for o in orders),
        return_exceptions=True,
    )

    assert sum(isinstance(one, ClashError) for one in answers) == 5, answers
    assert await count(managed.database) == (50, 50)


async def test_a_domain_of_another_workspace_cannot_be_used(managed: Managed) -> None:
    with pytest.raises(RefusedError, match="no mail domain"):
        await managed.make(BOB)
    await managed.domains.add(BOB, "bob.test")
    with pytest.raises(ParseError, match="`domain`"):
        await managed.make(BOB, domain="in.test")

    assert (await managed.make(BOB)).address.endswith("@bob.test")


async def test_a_workspace_has_so_many_inboxes_and_no_more(database: Database) -> None:
    managed = Managed(database, domains=["in.test"], inboxes_max=3)
    await managed.domains.apply_settings()
    await managed.inboxes.make(ALICE, [InboxRequest()] * 2, key="two")

    with pytest.raises(RefusedError, match="at most 3"):
        await managed.inboxes.make(ALICE, [InboxRequest()] * 2)
    await managed.make()
    with pytest.raises(RefusedError, match="at most 3"):
        await managed.make()

    assert (await managed.inboxes.make(ALICE, [InboxRequest()] * 2, key="two")).is_replay


async def test_too_many_or_none_at_once_are_refused(managed: Managed) -> None:
    for many in (0, 1001):
        with pytest.raises(ParseError, match="1 to 1000"):
            await managed.inboxes.make(ALICE, [InboxRequest()] * many)
        with pytest.raises(ParseError, match="1 to 1000"):
            await managed.inboxes.find_each(ALICE, [str(number) for number in range(many)])


async def test_a_rotated_inbox_has_a_new_address_and_keeps_the_old_for_a_while(
    managed: Managed,
) -> None:
    made = await managed.make(local="ann")

    rotated = await managed.inboxes.rotate(ALICE, "ann@in.test", grace_s=60)

    assert (rotated.id, rotated.address != made.address) == (made.id, True)
    lead = await managed.database.read(lambda tx: inboxes.lead(tx, [made.address, rotated.address]))
    assert lead[rotated.address].until_ms is None
    until_ms = lead[made.address].until_ms
    assert until_ms is not None
    assert 0 < until_ms - managed.clock.now_ms() <= 60_000
    with pytest.raises(ClashError):
        await managed.make(local="ann")
    with pytest.raises(ClashError):
        await managed.inboxes.rotate(ALICE, (await managed.make()).id, local="ann")


async def test_of_many_rotations_at_once_one_address_is_the_last(managed: Managed) -> None:
    made = await managed.make(local="ann")

    await asyncio.gather(*(managed.inboxes.rotate(ALICE, made.id, grace_s=0) for _ in range(8)))

    query = select(ADDRESSES.c.address).where(ADDRESSES.c.until_ms.is_(None))
    current = await managed.database.read(lambda tx: list(tx.scalars(query)))
    assert current == [(await managed.inboxes.find(ALICE, made.id)).address]


async def test_former_addresses_are_bounded(managed: Managed) -> None:
    made = await managed.make()
    for _ in range(25):
        await managed.inboxes.rotate(ALICE, made.id, grace_s=0)

    assert await count(managed.database) == (1, 21)
    for _ in range(20):
        await managed.inboxes.rotate(ALICE, made.id, grace_s=600)
    with pytest.raises(RefusedError, match="still take mail"):
        await managed.inboxes.rotate(ALICE, made.id, grace_s=600)
    assert await count(managed.database) == (1, 21)


async def test_a_catch_all_is_made_once_for_a_domain_and_not_rotated(managed: Managed) -> None:
    made = await managed.make(local="*")

    assert made.address == "@in.test"
    assert await managed.inboxes.find(ALICE, "*@IN.test") == made
    assert await managed.inboxes.find(ALICE, "@in.test") == made
    with pytest.raises(ClashError):
        await managed.make(local="*")
    with pytest.raises(RefusedError, match="catch-all"):
        await managed.inboxes.rotate(ALICE, made.id)


async def test_several_are_found_by_all_their_names(managed: Managed) -> None:
    ann, bea = await managed.make(local="ann"), await managed.make(local="bea")

    names = [bea.id, "ann@in.test", ann.id, bea.id, "nobody@in.test"]
    several = await managed.inboxes.find_each(ALICE, names)

    assert several == {bea.id: bea, "ann@in.test": ann, ann.id: ann, "nobody@in.test": None}


async def test_an_inbox_past_its_end_keeps_neither_its_key_nor_its_address(
    managed: Managed,
) -> None:
    asked = [InboxRequest(local="ann")]
    first = (await managed.inboxes.make(ALICE, asked, key="k")).inboxes[0]
    # Its time is over, and nobody has deleted it yet.
    await managed.database.write(lambda tx: tx.execute(update(INBOXES).values(expires_ms=1)))

    again = await managed.inboxes.make(ALICE, asked, key="k")
    await managed.purge.expire()

    assert not again.is_replay
    assert again.inboxes[0].address == first.address
    found = await managed.inboxes.find(ALICE, first.address)
    assert (found.id, found.id != first.id) == (again.inboxes[0].id, True)
