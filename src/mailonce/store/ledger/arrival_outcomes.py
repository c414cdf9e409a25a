"""What an arrival left in each table, found by its id alone.

Ids begin with the time at which they were minted. Those of events and conflicts begin as that of
their arrival does; those of its mails and dead letters are minted in the same moment. So each is a
range of a primary key, and the door need not write a further index.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from mailonce.core.ids import first_id, minted_ms
from mailonce.store.days import days_of
from mailonce.store.schema.mail_tables import MAILS
from mailonce.store.schema.tables import CONFLICTS, COPIES, DEAD_LETTERS, EVENTS

# Between two of the ids a large mail is written.
MINTED_WITHIN_MS = 10_000
ARRIVAL_KIND = "arrival"

_Query = Select[*tuple[Any, ...]]


class KeptMail(NamedTuple):
    """A mail, the inbox that has it (none where its number is None), and its message."""

    key: bytes
    inbox: str
    seq: int | None
    message: str | None


class CopiedElement(NamedTuple):
    """What was a copy: at a position below zero a mail, elsewhere an event."""

    position: int
    original: bytes
    recognised_by: str


class ConflictingElement(NamedTuple):
    """What had other content than the event that holds its key."""

    position: int
    event: bytes
    reason: str


class ArrivalOutcomes(NamedTuple):
    """What an arrival left, each in its own order."""

    events: list[bytes]
    copies: list[CopiedElement]
    conflicts: list[ConflictingElement]
    mails: list[KeptMail]
    dead_letters: list[bytes]


class OutcomeQueries(NamedTuple):
    """The queries that find them."""

    events: _Query
    copies: _Query
    conflicts: _Query
    mails: _Query
    dead_letters: _Query


def find(tx: Connection, workspace: str, arrival: bytes, *, limit: int) -> ArrivalOutcomes:
    """Find what an arrival left, of each kind so much at most."""
    ask = queries(workspace, arrival)
    return ArrivalOutcomes(
        [bytes(row[0]) for row in tx.execute(ask.events.limit(limit))],
        [CopiedElement(*row) for row in tx.execute(ask.copies.limit(limit))],
        [ConflictingElement(*row) for row in tx.execute(ask.conflicts.limit(limit))],
        [KeptMail(*row) for row in tx.execute(ask.mails.limit(limit))],
        [bytes(row[0]) for row in tx.execute(ask.dead_letters.limit(limit))],
    )


def queries(workspace: str, arrival: bytes) -> OutcomeQueries:
    """Write the queries for one arrival."""
    event, copy, conflict, mail, dead = (
        table.c for table in (EVENTS, COPIES, CONFLICTS, MAILS, DEAD_LETTERS)
    )
    days = days_of(arrival)
    numbered = (arrival[:13] + bytes(3), arrival[:13] + b"\xff" * 3)
    at_ms = minted_ms(arrival)
    near = (first_id(at_ms - MINTED_WITHIN_MS), first_id(at_ms + MINTED_WITHIN_MS))
    return OutcomeQueries(
        select(event.id)
        .where(event.id.between(*numbered), event.day.between(*days))
        .where(event.arrival == arrival, event.workspace == workspace)
        .order_by(event.id),
        select(copy.position, copy.event, copy.recognised_by)
        .where(copy.arrival == arrival, copy.day.between(*days))
        .order_by(copy.position),
        select(conflict.position, conflict.event, conflict.reason)
        .where(conflict.id.between(*numbered))
        .where(conflict.arrival == arrival, conflict.workspace == workspace)
        .order_by(conflict.id),
        select(*(mail[name] for name in KeptMail._fields))
        .where(mail.key.between(*near))
        .where(mail.arrival == arrival, mail.workspace == workspace)
        .order_by(mail.key),
        select(dead.id)
        .where(dead.id.between(*near))
        .where(dead.arrival == arrival, dead.workspace == workspace, dead.kind == ARRIVAL_KIND)
        .order_by(dead.id),
    )


def mails_of(tx: Connection, workspace: str, keys: Iterable[bytes]) -> dict[bytes, KeptMail]:
    """Find mails by their keys; one that was deleted is absent."""
    of = MAILS.c
    columns = [of[name] for name in KeptMail._fields]
    query = select(*columns).where(of.key.in_(set(keys)), of.workspace == workspace)
    return {bytes(row[0]): KeptMail(*row) for row in tx.execute(query)}
