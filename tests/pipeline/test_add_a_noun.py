"""A further noun is one file, `notes.py`. Notes are recorded beside events, in one commit."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
import pytest
import pytest_asyncio
from msgspec import Struct
from sqlalchemy import select, text

from mailonce.core.events.facts import Kind
from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ledger.claim import ConflictWith, CopyOf, FirstClaim, Verdict
from mailonce.core.ledger.entry import (
    ArrivalOutcome,
    Entry,
    EntryOutcome,
    FactRow,
    Status,
)
from mailonce.errors import UnavailableError
from mailonce.store.dialects.contract import Batch, Database, OutcomeUnknownError
from mailonce.store.dialects.postgres.database import PostgresDatabase
from mailonce.store.schema.tables import CONFLICTS, FACTS
from tests.acceptance.lossy import LossyProxy
from tests.factories import Ledger, make_body, make_entry, make_source, new_id
from tests.pipeline.notes import (
    NOTE_COUNTS,
    NOTES,
    Note,
    kept,
    make_note,
    make_noted,
    migrate,
    open_with_notes,
    recording,
    verdict_of,
)

on_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


@pytest_asyncio.fixture
async def noted(database_url: str) -> AsyncIterator[Database]:
    async with open_with_notes(database_url) as database:
        await database.write(migrate)
        yield database


async def test_notes_and_events_are_kept_in_one_commit(noted: Database) -> None:
    async with recording(noted) as recorder:
        answers = await asyncio.gather(
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
            recorder.record(make_noted(make_note("b", "hello again"))),
            recorder.record(make_entry(make_source(), make_body(2), now_ms=0)),
        )

    assert [one.status for one in answers if isinstance(one, ArrivalOutcome)] == [
        Status.ACCEPTED
    ] * 3
    assert [one.new for one in answers if isinstance(one, ArrivalOutcome)] == [1, 0, 1]
    found = await kept(noted)
    assert (found["notes"], found["events"], found["claims"]) == (2, 2, 4)
    rows = await noted.read(lambda tx: tx.execute(select(NOTES).order_by(NOTES.c.text)).all())
    assert [(row.workspace, row.text) for row in rows] == [
        ("default", "hello"),
        ("default", "hello again"),
    ]
    assert all(row.kept_ms > 0 for row in rows)


async def test_of_twenty_copies_at_once_one_is_first(noted: Database) -> None:
    async with recording(noted) as recorder:
        answers = await asyncio.gather(
            *(recorder.record(make_noted(make_note("a", "hello"))) for _ in range(20))
        )

    verdicts = Counter(type(verdict_of(answer)) for answer in answers)
    assert verdicts == {FirstClaim: 1, CopyOf: 19}
    statuses = Counter(one.status for one in answers if isinstance(one, ArrivalOutcome))
    assert statuses == {Status.ACCEPTED: 1, Status.DUPLICATE: 19}
    assert (await kept(noted))["notes"] == 1


@on_postgresql
async def test_of_copies_through_two_doors_at_once_one_is_first(
    noted: Database, database_url: str
) -> None:
    async with (
        open_with_notes(database_url) as other,
        recording(noted) as one_door,
        recording(other) as other_door,
    ):
        answers = await asyncio.gather(
            *(
                door.record(make_noted(make_note(f"n{number}", "hello"), body=make_body(number)))
                for number in range(20)
                for door in (one_door, other_door)
            )
        )

    assert Counter(type(verdict_of(one)) for one in answers) == {FirstClaim: 20, CopyOf: 20}
    rows = await kept(noted)
    assert (rows["notes"], rows["events"]) == (20, 20)
    counted = await noted.read(lambda tx: tx.execute(select(NOTE_COUNTS.c.notes)).scalar_one())
    assert counted == 20


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one after the other"])
async def test_other_content_under_the_same_key_is_a_conflict(
    noted: Database, *, together: bool
) -> None:
    first, other = make_note("a", "hello"), make_note("a", "good bye")

    async with recording(noted) as recorder:
        one = recorder.record(make_noted(first))
        another = recorder.record(make_noted(other))
        answers = (await asyncio.gather(one, another)) if together else [await one, await another]

    assert verdict_of(answers[1]) == ConflictWith(first.id)
    assert [one.status for one in answers if isinstance(one, ArrivalOutcome)] == [
        Status.ACCEPTED,
        Status.CONFLICT,
    ]
    assert (await kept(noted))["notes"] == 1


async def test_rows_of_one_key_are_folded_in_a_batch_and_across_batches(noted: Database) -> None:
    async with recording(noted) as recorder:
        for names in (["", "a", "bbb", "bbb"], ["", "cc", "dd"]):
            entries = [make_noted(make_note(name, name)) for name in names]
            await asyncio.gather(*map(recorder.record, entries))

    row = await noted.read(lambda tx: tx.execute(select(NOTE_COUNTS)).one())
    assert tuple(row) == ("default", 5, 3)


async def test_a_batch_that_fails_leaves_neither_notes_nor_events(noted: Database) -> None:
    """The last kind cannot be written: nothing of what was written before it stays."""
    hidden = text("ALTER TABLE note_counts RENAME TO hidden")
    await noted.write(lambda tx: tx.execute(hidden) and None)

    async with recording(noted) as recorder:
        entry = make_noted(make_note("a", "hello"), body=make_body(1))
        with pytest.raises(UnavailableError):
            await recorder.record(entry)

    assert set((await kept(noted)).values()) == {0}
    shown = text("ALTER TABLE hidden RENAME TO note_counts")
    await noted.write(lambda tx: tx.execute(shown) and None)
    async with recording(noted) as recorder:
        assert isinstance(verdict_of(await recorder.record(entry)), FirstClaim)


class LosesAnswer:
    """A database that commits its first batch, and then loses the answer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def record(self, batch: Batch, *, short_lock_wait: bool = False) -> list[EntryOutcome]:
        answers = await self._database.record(batch, short_lock_wait=short_lock_wait)
        if not self._lost:
            self._lost = True
            raise OutcomeUnknownError("the answer was lost; try again")
        return answers


async def test_a_batch_whose_answer_was_lost_knows_its_notes(noted: Database) -> None:
    async with recording(cast("Database", LosesAnswer(noted))) as recorder:
        answers = await asyncio.gather(
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
            recorder.record(make_noted(make_note("a", "hello"))),
            recorder.record(make_noted(make_note("a", "good bye"))),
        )

    kinds = [type(verdict_of(answer)) for answer in answers]
    assert kinds == [FirstClaim, CopyOf, ConflictWith]
    rows = await kept(noted)
    assert (rows["notes"], rows["events"], rows["claims"]) == (1, 1, 2)
    counted = await noted.read(lambda tx: tx.execute(select(NOTE_COUNTS.c.notes)).scalar_one())
    assert counted == 1


async def test_a_note_that_cannot_be_stored_costs_nobody_else(noted: Database) -> None:
    unstorable = "\ud800 alone"

    async with recording(noted) as recorder:
        answers = await asyncio.gather(
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
            recorder.record(
                make_noted(
                    Note(new_id(0), Key(b"k" * 16), Fingerprint(b"f" * 16), unstorable),
                    body=make_body(2),
                )
            ),
            recorder.record(make_noted(make_note("b", "hello"))),
        )

    assert [one.status for one in answers if isinstance(one, ArrivalOutcome)] == [
        Status.ACCEPTED,
        Status.DEAD_LETTER,
        Status.ACCEPTED,
    ]
    rows = await kept(noted)
    assert (rows["notes"], rows["events"], rows["dead_letters"]) == (2, 1, 1)


@dataclass(frozen=True, slots=True)
class Opening(Note):
    """A note that also says something of a message, though no event does."""

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        if isinstance(verdict, FirstClaim):
            yield FactRow(
                entry.workspace, "m-1", "ada@example.com", "a", Kind.OPENED, 1, None, None
            )


async def test_a_noun_may_write_rows_that_events_write_as_well(noted: Database) -> None:
    openings = [
        Opening(new_id(0), Key(bytes([number]) * 16), Fingerprint(b"f" * 16), "")
        for number in range(3)
    ]

    async with recording(noted) as recorder:
        await asyncio.gather(
            *(
                recorder.record(make_noted(opening, body=make_body(number)))
                for number, opening in enumerate(openings)
            )
        )

    facts = await noted.read(
        lambda tx: tx.execute(select(FACTS.c.kind, FACTS.c.count).order_by(FACTS.c.kind)).all()
    )
    assert [tuple(row) for row in facts] == [(Kind.DELIVERED, 3), (Kind.OPENED, 3)]


async def test_rows_that_nobody_writes_are_refused(database: Database) -> None:
    """It was opened without the notes' kinds: the batch fails, or its rows would be lost."""
    with pytest.raises(LookupError, match="NoteCountRow, NoteRow; hand its kind"):
        await database.record(Batch(new_id(0), [make_noted(make_note("a", "hello"))]))

    async with recording(database) as recorder:
        with pytest.raises(UnavailableError):
            await recorder.record(make_noted(make_note("a", "hello")))


@on_postgresql
async def test_a_broken_connection_costs_a_note_nothing(noted: Database, database_url: str) -> None:
    """The server has committed, the answer is lost on the way: the batch knows its own rows."""
    async with (
        LossyProxy(database_url) as proxy,
        open_with_notes(proxy.url) as behind,
        recording(behind) as recorder,
    ):
        await recorder.record(make_noted(make_note("warm", "up")))
        proxy.lose_answer_to(b"hello")
        answers = await asyncio.gather(
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
            recorder.record(make_noted(make_note("a", "hello"))),
        )

    assert proxy.lost == 1
    assert [type(verdict_of(answer)) for answer in answers] == [FirstClaim, CopyOf]
    rows = await kept(noted)
    assert (rows["notes"], rows["events"], rows["arrivals"]) == (2, 1, 3)
    counted = await noted.read(lambda tx: tx.execute(select(NOTE_COUNTS.c.notes)).scalar_one())
    assert counted == 2


async def test_a_batch_that_quarrels_with_itself_writes_each_note_once(noted: Database) -> None:
    """An event of other content makes the ledger ask for one more key, and judge all again."""
    async with recording(noted) as recorder:
        await recorder.record(make_noted(make_note("warm", "up"), body=make_body("warm")))
        answers = await asyncio.gather(
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
            recorder.record(make_noted(make_note("a", "bye"), body=make_body(1, type="opened"))),
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
        )

    assert [type(verdict_of(one)) for one in answers] == [FirstClaim, ConflictWith, CopyOf]
    assert [one.status for one in answers if isinstance(one, ArrivalOutcome)] == [
        Status.ACCEPTED,
        Status.CONFLICT,
        Status.DUPLICATE,
    ]
    assert (await kept(noted))["notes"] == 2
    conflicts = await noted.read(lambda tx: tx.execute(select(CONFLICTS.c.id)).all())
    assert len(conflicts) == 1


@pytest.mark.parametrize("is_stale", [True, False], ids=["after the guess", "before the guess"])
@on_postgresql
async def test_a_note_is_known_though_the_generations_rotated(
    noted: Database, database_url: str, *, is_stale: bool
) -> None:
    """A door guesses by a head that another has moved on since, or by one that knows it all."""
    window_ms = 86_400_000
    async with open_with_notes(database_url) as other:
        assert isinstance(other, PostgresDatabase)
        first = make_note("a", "hello")
        ledger, late = Ledger(noted, (await noted.head()).now_ms), make_noted(first)
        await ledger.record(late)
        await other.head()
        guessed = other._known
        due = text(f"UPDATE head SET rotated_ms = {ledger.now_ms - window_ms}")
        await noted.write(lambda tx: tx.execute(due) and None)
        assert await noted.rotate(window_ms=window_ms)
        assert other._known == guessed
        if not is_stale:
            await other.head()

        entries = [make_noted(make_note("a", words)) for words in ("hello", "good bye")]
        answers = await other.record(Batch(new_id(ledger.now_ms), entries))

    assert [verdict_of(one) for one in answers] == [CopyOf(first.id), ConflictWith(first.id)]
    assert (await kept(noted))["notes"] == 1


@on_postgresql
async def test_whoever_needs_a_held_note_waits_and_no_others_do(
    noted: Database, database_url: str
) -> None:
    held = make_note("held", "hello")
    generation = (await noted.head()).generation
    person = await asyncpg.connect(database_url)
    try:
        async with recording(noted) as recorder:
            transaction = person.transaction()
            await transaction.start()
            await person.execute(
                f"INSERT INTO claims_{generation % 2} VALUES ($1, $1, $1)", held.key
            )
            waiting = asyncio.create_task(recorder.record(make_noted(held)))
            others = await asyncio.gather(
                *(
                    recorder.record(make_entry(make_source(), make_body(number), now_ms=0))
                    for number in range(5)
                )
            )
            assert not waiting.done() or isinstance(waiting.exception(), UnavailableError)
            await transaction.rollback()
            await asyncio.wait([waiting])
    finally:
        await person.close()

    assert [one.status for one in others if isinstance(one, ArrivalOutcome)] == [
        Status.ACCEPTED
    ] * 5
    # It was written once the key was free, or its caller was told to come again.
    stands = (await kept(noted))["notes"] == 1
    assert stands == (waiting.exception() is None)


@on_postgresql
async def test_a_held_row_that_notes_share_holds_up_notes_alone(
    noted: Database, database_url: str
) -> None:
    """All wait in one lane: after the first, none is tried by the flusher that serves events."""
    person = await asyncpg.connect(database_url)
    try:
        async with recording(noted) as recorder:
            await recorder.record(make_noted(make_note("first", "hello")))
            transaction = person.transaction()
            await transaction.start()
            await person.execute("SELECT 1 FROM note_counts FOR UPDATE")
            waiting, lanes = [], []
            for number in range(4):
                note = make_noted(make_note(f"n{number}", "hello"))
                waiting.append(asyncio.create_task(recorder.record(note)))
                entry = make_entry(make_source(), make_body(number), now_ms=0)
                assert isinstance(await recorder.record(entry), ArrivalOutcome)
                lanes.append(len({id(lane) for lane in recorder._locked._lanes.values()}))
            await transaction.rollback()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
    finally:
        await person.close()

    assert max(lanes) == 1
    errors = [one for one in ended if isinstance(one, UnavailableError)]
    rows = await kept(noted)
    assert (rows["notes"], rows["events"]) == (5 - len(errors), 4)
