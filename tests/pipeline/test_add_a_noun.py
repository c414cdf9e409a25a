"""A further noun is one file: this one. Notes are recorded beside events, in one commit.

Whoever adds a noun declares its items (what they claim, what they write because of the verdict),
its rows, its table and how its rows are written, and hands the kinds of rows to `open_database`.
The Recorder, the ledger and both databases take them as they are.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import pytest
import pytest_asyncio
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text, func, select, text

from mailonce.clock import Clock
from mailonce.core.claim import ConflictWith, CopyOf, FirstClaim, Verdict
from mailonce.core.entry import Answer, Entry, FactRow, GuardBroken, Status
from mailonce.core.facts import Kind
from mailonce.core.key import Fingerprint, Key
from mailonce.errors import UnavailableError
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Batch, Database, LostError
from mailonce.store.ledger_rows import KINDS
from mailonce.store.row_kind import Fold, RowKind
from mailonce.store.tables import ARRIVALS, CLAIMS, DEAD_LETTERS, EVENTS, FACTS
from mailonce.telemetry import Metrics
from tests.factories import make_body, make_entry, make_source, new_id

# The noun. Rows first: one class for each table.


class NoteRow(Struct, frozen=True, gc=False):
    id: bytes
    workspace: str
    text: str


class NoteCountRow(Struct, frozen=True, gc=False):
    workspace: str
    notes: int
    longest: int | None


@dataclass(frozen=True, slots=True)
class Note:
    """Somebody's words under a name that they chose."""

    id: bytes
    key: Key
    fingerprint: Fingerprint
    text: str

    def rows(self, entry: Entry, verdict: Verdict) -> Iterable[Struct]:
        """Keep and count the first; a copy and a conflict only hear what they are."""
        if isinstance(verdict, FirstClaim):
            yield NoteRow(self.id, entry.workspace, self.text)
            yield NoteCountRow(entry.workspace, 1, len(self.text) or None)


_TABLES = MetaData()
NOTES = Table(
    "notes",
    _TABLES,
    Column("id", LargeBinary, primary_key=True),
    Column("workspace", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("kept_ms", BigInteger, nullable=False),
)
NOTE_COUNTS = Table(
    "note_counts",
    _TABLES,
    Column("workspace", Text, primary_key=True),
    Column("notes", BigInteger, nullable=False),
    Column("longest", BigInteger),
)
NOTE_KINDS = (
    RowKind(
        row=NoteRow,
        table=NOTES,
        array_of="note_row",
        values={"kept_ms": "{received_ms}"},
        group="notes",
    ),
    RowKind(
        row=NoteCountRow,
        table=NOTE_COUNTS,
        array_of="note_count_row",
        fold={"notes": Fold.ADD, "longest": Fold.GREATEST},
        lock_order=("workspace",),
        group="notes",
    ),
)
# What its migration would make.
ROW_TYPES = (
    "CREATE TYPE note_row AS (id bytea, workspace text, text text)",
    "CREATE TYPE note_count_row AS (workspace text, notes bigint, longest bigint)",
)


# The tests.


def make_note(name: str, words: str) -> Note:
    def hashed(value: str) -> bytes:
        return sha256(value.encode()).digest()[:16]

    return Note(new_id(0), Key(hashed(f"note {name}")), Fingerprint(hashed(words)), words)


def make_noted(*notes: Note, body: bytes | None = None) -> Entry:
    """Make an arrival that brings notes and, where it has a body, the event in it."""
    entry = make_entry(make_source(), body or make_body("none"), now_ms=Clock().now_ms())
    return replace(entry, items=notes, events=entry.events if body else ())


@asynccontextmanager
async def open_with_notes(url: str) -> AsyncIterator[Database]:
    database = await open_database(url, kinds=(*KINDS, *NOTE_KINDS))
    try:
        yield database
    finally:
        await database.close()


@pytest_asyncio.fixture
async def noted(database_url: str) -> AsyncIterator[Database]:
    async with open_with_notes(database_url) as database:

        def migrate(tx: Any) -> None:
            _TABLES.create_all(tx)
            if tx.dialect.name == "postgresql":
                for statement in ROW_TYPES:
                    tx.execute(text(statement))

        await database.write(migrate)
        yield database


@asynccontextmanager
async def recording(database: Database) -> AsyncIterator[Recorder]:
    recorder = Recorder(database, Clock(), Metrics(), Limits())
    recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close()


async def kept(database: Database) -> dict[str, int]:
    """Count what stands."""

    def work(tx: Any) -> dict[str, int]:
        tables = (NOTES, EVENTS, ARRIVALS, FACTS, DEAD_LETTERS)
        rows = {
            table.name: tx.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        }
        claims = [tx.execute(select(func.count()).select_from(one)).scalar_one() for one in CLAIMS]
        return rows | {"claims": sum(claims)}

    return await database.read(work)


def verdict_of(answer: Answer | GuardBroken) -> Verdict:
    assert isinstance(answer, Answer)
    (verdict,) = answer.verdicts
    return verdict


async def test_notes_and_events_are_kept_in_one_commit(noted: Database) -> None:
    async with recording(noted) as recorder:
        answers = await asyncio.gather(
            recorder.record(make_noted(make_note("a", "hello"), body=make_body(1))),
            recorder.record(make_noted(make_note("b", "hello again"))),
            recorder.record(make_entry(make_source(), make_body(2), now_ms=0)),
        )

    assert [one.status for one in answers if isinstance(one, Answer)] == [Status.ACCEPTED] * 3
    assert [one.new for one in answers if isinstance(one, Answer)] == [1, 0, 1]
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
    statuses = Counter(one.status for one in answers if isinstance(one, Answer))
    assert statuses == {Status.ACCEPTED: 1, Status.DUPLICATE: 19}
    assert (await kept(noted))["notes"] == 1


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
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
    found = await kept(noted)
    assert (found["notes"], found["events"]) == (20, 20)
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
    assert [one.status for one in answers if isinstance(one, Answer)] == [
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

    async def record(self, batch: Batch, *, hasty: bool = False) -> list[Answer | GuardBroken]:
        answers = await self._database.record(batch, hasty=hasty)
        if not self._lost:
            self._lost = True
            raise LostError("the answer was lost; try again")
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
    found = await kept(noted)
    assert (found["notes"], found["events"], found["claims"]) == (1, 1, 2)
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

    assert [one.status for one in answers if isinstance(one, Answer)] == [
        Status.ACCEPTED,
        Status.DEAD_LETTER,
        Status.ACCEPTED,
    ]
    found = await kept(noted)
    assert (found["notes"], found["events"], found["dead_letters"]) == (2, 1, 1)


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
