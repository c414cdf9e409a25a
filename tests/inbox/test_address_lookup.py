"""Addresses that many sessions ask for at once: few reads, no answer older than its question."""

import asyncio
from collections.abc import Collection

import pytest

from mailonce.core.inboxes.inbox import Inbox
from mailonce.errors import UnavailableError
from mailonce.inbox.address_lookup import NAMES_MAX, AddressLookup, Places
from mailonce.store.inboxes.inboxes import AddressedInbox


class Reader:
    """Stands for the database: knows some addresses, and answers when it may."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.reads: list[int] = []
        self.may_answer = asyncio.Event()
        self.error: UnavailableError | None = None

    async def read(self, names: Collection[str]) -> Places:
        self.reads.append(len(names))
        found, error = self.known & set(names), self.error
        await self.may_answer.wait()
        if error is not None:
            raise error
        return {name: AddressedInbox(name, make_inbox(name), None) for name in found}


def make_inbox(address: str) -> Inbox:
    return Inbox(id=f"ibx_{address}", workspace="default", address=address, created_ms=0)


async def ask(lookup: AddressLookup, *names: str) -> "asyncio.Task[Places]":
    """Ask, and let everything that can happen without an answer happen."""
    task = asyncio.create_task(lookup.find(names))
    for _ in range(10):
        await asyncio.sleep(0)
    return task


async def test_what_is_asked_while_a_read_is_under_way_is_the_next_read_together() -> None:
    reader = Reader()
    reader.known = {f"box{number}@in.test" for number in range(50)}
    lookup = AddressLookup(reader.read)

    asked = [await ask(lookup, name, "@in.test") for name in sorted(reader.known)]
    reader.may_answer.set()
    answers = [await one for one in asked]

    assert reader.reads == [2, 50]
    for name, places in zip(sorted(reader.known), answers, strict=True):
        assert places[name].inbox.address == name


async def test_an_inbox_that_was_made_before_the_question_is_found() -> None:
    """The read under way began before it was made, so that does not answer."""
    reader = Reader()
    lookup = AddressLookup(reader.read)
    early = await ask(lookup, "ann@in.test")
    reader.known = {"ann@in.test"}

    late = await ask(lookup, "ann@in.test")
    reader.may_answer.set()

    assert await early == {}
    assert list(await late) == ["ann@in.test"]


async def test_a_read_that_fails_costs_those_who_share_it_and_no_others() -> None:
    reader = Reader()
    reader.known, reader.error = {"bob@in.test"}, UnavailableError("away")
    lookup = AddressLookup(reader.read)
    failing = await ask(lookup, "ann@in.test")
    reader.error = None

    following = await ask(lookup, "bob@in.test")
    reader.may_answer.set()

    with pytest.raises(UnavailableError):
        await failing
    assert list(await following) == ["bob@in.test"]


async def test_a_session_that_is_cancelled_leaves_the_others_their_answer() -> None:
    reader = Reader()
    reader.known = {"ann@in.test"}
    lookup = AddressLookup(reader.read)
    first = await ask(lookup, "ann@in.test")
    cancelled, other = await ask(lookup, "ann@in.test"), await ask(lookup, "ann@in.test")

    cancelled.cancel()
    first.cancel()
    reader.may_answer.set()

    assert list(await other) == ["ann@in.test"]


async def test_a_read_has_a_limit() -> None:
    reader = Reader()
    reader.may_answer.set()
    lookup = AddressLookup(reader.read)

    await lookup.find([f"box{number}@in.test" for number in range(NAMES_MAX + 1)])

    assert reader.reads == [NAMES_MAX, 1]
