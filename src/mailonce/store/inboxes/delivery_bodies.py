"""What routes were to be sent of a mail: erased when the mail is deleted.

The rows of the event and of its deliveries stay, with what became of them. Their bytes go, wherever
they were frozen: in the event's row, in the delivery's own, in a dead letter, and in the post of
the provider that handed the mail over.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Connection, func, or_, select, update

from mailonce.core.deliveries.delivery import key_of
from mailonce.core.events.event import EventType
from mailonce.store.days import days_of
from mailonce.store.dialects.row_locks import lock_rows
from mailonce.store.filters import is_pair
from mailonce.store.schema.tables import ARRIVALS, DEAD_LETTERS, DELIVERIES, EVENTS, ROUTES

# A body that was never there is NULL; no body that is sent is empty.
ERASED = b""

_D, _E = DELIVERIES.c, EVENTS.c
_AT_ONCE = 500

T = TypeVar("T")


def erase_bodies(tx: Connection, workspace: str, messages: Collection[str]) -> int:
    """Erase what was made of these messages for routes; say how many deliveries had a body.

    What is pending of them is given up by whoever comes to it next: nothing is left to send.
    """
    count = 0
    for some in _slices(sorted(messages)):
        is_one = (_E.workspace == workspace, _E.type == str(EventType.INBOUND))
        query = select(_E.day, _E.id, _E.received_ms, _E.message_id)
        events = tx.execute(query.where(_E.message_id.in_(some), *is_one)).all()
        keys = {
            bytes(key)
            for key in tx.scalars(
                select(_D.key).where(
                    _D.made_ms.in_({row.received_ms for row in events}),
                    _D.event.in_([row.id for row in events]),
                    _D.workspace == workspace,
                )
            )
        }
        # Where the log has forgotten the event, a delivery is known by its key alone.
        keys |= _keys(tx, workspace, set(some) - {row.message_id for row in events})
        count += _erase_deliveries(tx, workspace, keys)
        own = is_pair(_E.day, _E.id, [(row.day, row.id) for row in events])
        if events:
            tx.execute(update(EVENTS).where(own, _E.body.is_not(None)).values(body=None))
    return count


def erase_arrivals(tx: Connection, workspace: str, arrivals: Iterable[bytes]) -> int:
    """Erase the posts that these mails came in, where they were kept; say how many were."""
    count = 0
    for arrival in sorted(set(arrivals)):
        first, last = days_of(arrival)
        is_one = (
            ARRIVALS.c.id == arrival,
            ARRIVALS.c.day.between(first, last),
            ARRIVALS.c.workspace == workspace,
            ARRIVALS.c.body.is_not(None),
        )
        count += tx.execute(update(ARRIVALS).where(*is_one).values(body=None)).rowcount
    return count


def _keys(tx: Connection, workspace: str, messages: Collection[str]) -> set[bytes]:
    if not messages:
        return set()
    routes = list(tx.scalars(select(ROUTES.c.id).where(ROUTES.c.workspace == workspace)))
    return {key_of(message, route) for message in messages for route in routes}


def _erase_deliveries(tx: Connection, workspace: str, keys: Collection[bytes]) -> int:
    count = 0
    for some in _slices(sorted(keys)):
        lock_rows(tx, DELIVERIES, [(key,) for key in some])
        has_body = or_(_D.body.is_(None), func.length(_D.body) > 0)
        which = (_D.key.in_(some), _D.workspace == workspace, has_body)
        count += tx.execute(update(DELIVERIES).where(*which).values(body=ERASED)).rowcount
        letters = DEAD_LETTERS.c
        is_letter = (letters.delivery.in_(some), letters.workspace == workspace)
        tx.execute(update(DEAD_LETTERS).where(*is_letter).values(raw=ERASED))
    return count


def _slices(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[at : at + _AT_ONCE] for at in range(0, len(values), _AT_ONCE))
