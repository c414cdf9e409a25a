"""An item whose rows cannot be made, by a mistake of ours, costs its own arrival and no other."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest_asyncio
from msgspec import Struct

from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ledger.claim import Verdict
from mailonce.core.ledger.entry import ArrivalOutcome, Entry
from mailonce.pipeline.waiting import NotRecordedError
from mailonce.store.dialects.contract import Database
from tests.factories import make_body, new_id
from tests.pipeline.notes import (
    Note,
    kept,
    make_note,
    make_noted,
    migrate,
    open_with_notes,
    recording,
)


@pytest_asyncio.fixture
async def noted(database_url: str) -> AsyncIterator[Database]:
    async with open_with_notes(database_url) as database:
        await database.write(migrate)
        yield database


@dataclass(frozen=True, slots=True)
class Mistaken(Note):
    """A note with a mistake of ours in it."""

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        raise KeyError(entry.workspace, verdict)


async def test_a_mistake_of_ours_costs_no_other_arrival(noted: Database) -> None:
    mistaken = Mistaken(new_id(0), Key(b"k" * 16), Fingerprint(b"f" * 16), "")
    entries = [make_noted(make_note(name, "hello"), body=make_body(name)) for name in "abcde"]
    entries.insert(2, make_noted(mistaken, body=make_body("mistaken")))

    async with recording(noted) as recorder:
        answers = await asyncio.gather(*map(recorder.record, entries), return_exceptions=True)

    expected = [*[ArrivalOutcome] * 2, NotRecordedError, *[ArrivalOutcome] * 3]
    assert [type(one) for one in answers] == expected
    found = await kept(noted)
    assert (found["notes"], found["events"]) == (5, 5)
