"""Further copies of what came: of an event, and of the mail that an event was read from.

A copy that a provider posts again names the event. A mail that comes again is known as such before
it is read: its copy names the mail, and the events that were read from it came as often.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, select

from mailonce.core.events.event import EventType
from mailonce.store.days import SKEW_DAYS, days_of
from mailonce.store.ledger.events import LoggedEvent
from mailonce.store.schema.tables import COPIES

IDS_MAX = 500
# Of what a mail reports of another one, for which nobody vouches.
_UNCERTAIN = b'"certain":false'


class Copies(NamedTuple):
    """How many further copies of an event came, and what each was recognised by."""

    times: int
    recognised_by: tuple[str, ...]


NO_COPIES = Copies(0, ())


def of_events(tx: Connection, events: Sequence[LoggedEvent]) -> dict[bytes, Copies]:
    """Count the further copies of each event; one that is absent has none."""
    mails = {event.arrival for event in events if _may_be_of_mail(event)}
    # A copy whose batch was stamped before midnight may stand a day before its event.
    days = {event.day - SKEW_DAYS for event in events} | {days_of(mail)[0] for mail in mails}
    known = _count(tx, {*mails, *(event.id for event in events)}, days)
    counted: dict[bytes, Copies] = {}
    for event in events:
        # A mail of other bytes with the same content is a copy of both; the mail has all of them.
        of_mail = known.get(event.arrival) if event.arrival in mails else None
        copies = of_mail or known.get(event.id)
        if copies is not None:
            counted[event.id] = copies
    return counted


def of_mails(tx: Connection, mails: Iterable[bytes]) -> dict[bytes, int]:
    """Count how often each mail came again; one that is absent did not."""
    ids = set(mails)
    counted = _count(tx, ids, {days_of(mail)[0] for mail in ids})
    return {mail: copies.times for mail, copies in counted.items()}


def times_of(mail: ColumnElement[bytes], *, first_day: int) -> ColumnElement[int]:
    """Count how often a mail came again, within a statement that reads it.

    A mail has copies of mails alone, which `count_query` counts by their positions, too.
    """
    is_copy = (COPIES.c.event == mail, COPIES.c.day >= first_day)
    return select(func.count(COPIES.c.position.distinct())).where(*is_copy).scalar_subquery()


def count_query(ids: Sequence[bytes], *, first_day: int) -> Select[*tuple[Any, ...]]:
    """Count copies by what they are copies of, and by what they were recognised.

    An arrival has one copy at a position. That of a mail is made of the copy's own id, and a mail
    that is read again is noted again, perhaps on another day.
    """
    of = COPIES.c
    places = func.count(of.position.distinct()).filter(of.position < 0)
    elements = func.count().filter(of.position >= 0)
    return (
        select(of.event, of.recognised_by, places + elements)
        .where(of.event.in_(ids), of.day >= first_day)
        .group_by(of.event, of.recognised_by)
        .order_by(of.event, of.recognised_by)
    )


def _count(tx: Connection, ids: set[bytes], days: set[int]) -> dict[bytes, Copies]:
    """Count the copies of these; none of them came before the first of the days."""
    counted: dict[bytes, Copies] = {}
    ordered = sorted(ids)
    for start in range(0, len(ordered), IDS_MAX):
        query = count_query(ordered[start : start + IDS_MAX], first_day=min(days))
        for id_, word, times in tx.execute(query):
            before = counted.get(bytes(id_), NO_COPIES)
            counted[bytes(id_)] = Copies(before.times + times, (*before.recognised_by, word))
    return counted


def _may_be_of_mail(event: LoggedEvent) -> bool:
    return event.type == EventType.INBOUND or _UNCERTAIN in event.detail
