"""A further noun, all of it: notes, which arrivals bring beside events.

Whoever adds a noun declares its rows, its items (what they claim, what they write because of the
verdict), its tables and how its rows are written, and hands the kinds of rows to `open_database`.
The Recorder, the ledger and both databases take them as they are.
"""

from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text, func, select, text

from mailonce.clock import Clock
from mailonce.core.events.key import Fingerprint, Key
from mailonce.core.ledger.claim import FirstClaim, Verdict
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, EntryOutcome
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.ledger_rows import KINDS
from mailonce.store.schema.row_kind import Fold, RowKind
from mailonce.store.schema.tables import ARRIVALS, CLAIMS, DEAD_LETTERS, EVENTS, FACTS
from mailonce.telemetry import Metrics
from tests.factories import make_body, make_entry, make_source, new_id


# docs: begin
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

    def shared_rows(self, entry: Entry) -> Iterable[Hashable]:
        """All notes of a workspace are counted in one row."""
        return [("note_counts", entry.workspace)]

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


# docs: end
# What tests need to bring notes.


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
    """Open the database; its notes' tables are made by `migrate`."""
    database = await open_database(url, kinds=(*KINDS, *NOTE_KINDS))
    try:
        yield database
    finally:
        await database.close()


def migrate(tx: Any) -> None:
    _TABLES.create_all(tx)
    if tx.dialect.name == "postgresql":
        for statement in ROW_TYPES:
            tx.execute(text(statement))


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


def verdict_of(answer: EntryOutcome) -> Verdict:
    assert isinstance(answer, ArrivalOutcome)
    (verdict,) = answer.verdicts
    return verdict
