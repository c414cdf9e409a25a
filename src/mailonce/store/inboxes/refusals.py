"""Mail that was refused, by the inbox or the domain that it was for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from mailonce.core.inboxes.inbox import RefusalReason, spellings_of
from mailonce.core.mail.address import read_address
from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.inboxes import domains, inboxes, messages
from mailonce.store.schema.mail_tables import MAIL_REFUSALS

MINUTE_MS = 60_000

_R = MAIL_REFUSALS.c
_HAVING = (
    select(_R.workspace, _R.inbox)
    .where(
        _R.workspace.in_(bindparam("workspaces", expanding=True)),
        _R.inbox.in_(bindparam("inboxes", expanding=True)),
    )
    .distinct()
)


class MailRefusal(NamedTuple):
    """What one process refused to one address for one reason in one minute."""

    address: str
    domain: str
    reason: str
    code: int
    minute: int
    process: bytes


class RefusedMail(NamedTuple):
    """How often mail for an inbox was refused for one reason, and when last."""

    address: str
    reason: str
    code: int
    times: int
    first_minute: int
    last_minute: int


class RefusalPlace(NamedTuple):
    """An inbox, and the number behind which somebody reads; `created_ms` of the inbox."""

    workspace: str
    inbox: str
    after: int
    created_ms: int


def add_all(tx: Connection, counts: Mapping[MailRefusal, int]) -> dict[str, int]:
    """Store counters with those whom they concern.

    Mail for a domain of nobody's is not stored: it gives how many unknown recipients each had.
    """
    unknown: Counter[str] = Counter()
    spellings = {one: _spellings(one.address) for one in counts}
    places = inboxes.lead(tx, {name for names in spellings.values() for name in names})
    owners = {
        domain: domains.get(tx, domain) for domain in {one.domain for one in counts if one.domain}
    }
    rows = []
    for one, count in sorted(counts.items()):
        place = next((places[name] for name in spellings[one] if name in places), None)
        owner = owners.get(one.domain)
        if place is not None:
            workspace, inbox = place.inbox.workspace, place.inbox.id
        elif owner is not None:
            workspace, inbox = owner.workspace, ""
        else:
            if one.domain and one.reason == RefusalReason.UNKNOWN:
                unknown[one.domain] += count
            continue
        fields = one._asdict() | {"workspace": workspace, "inbox": inbox, "count": count}
        del fields["domain"]
        rows.append(fields)
    if rows:
        insert_or_add(tx, MAIL_REFUSALS, rows, add=("count",))
    return dict(unknown)


def _spellings(address: str) -> tuple[str, ...]:
    read = read_address(address)
    return () if read is None else spellings_of(read)


def of_inbox(
    tx: Connection, workspace: str, inbox: str, *, since_minute: int, most: int
) -> list[RefusedMail]:
    """List what was refused to an inbox since a minute, by address and reason."""
    return _list(tx, workspace, inbox, _R.minute >= since_minute, most=most)


def of_places(
    tx: Connection, places: Sequence[RefusalPlace], *, most: int
) -> dict[RefusalPlace, list[RefusedMail]]:
    """List what was refused to each inbox since the message of its number; most had nothing."""
    given = {
        "workspaces": sorted({one.workspace for one in places}),
        "inboxes": sorted({one.inbox for one in places}),
    }
    having = {tuple(row) for row in tx.execute(_HAVING, given)}
    return {
        one: of_inbox(
            tx, one.workspace, one.inbox, since_minute=_since_ms(tx, one) // MINUTE_MS, most=most
        )
        for one in places
        if (one.workspace, one.inbox) in having
    }


def _since_ms(tx: Connection, place: RefusalPlace) -> int:
    return messages.received_ms(tx, place.inbox, seq=place.after) or place.created_ms


def of_domain(
    tx: Connection, workspace: str, domain: str, *, since_minute: int, most: int
) -> list[RefusedMail]:
    """List what was refused to addresses of a domain that lead to no inbox, likewise."""
    is_there = _R.address.endswith(f"@{domain}", autoescape=True) & (_R.minute >= since_minute)
    return _list(tx, workspace, "", is_there, most=most)


def _list(
    tx: Connection, workspace: str, inbox: str, which: ColumnElement[bool], *, most: int
) -> list[RefusedMail]:
    query = (
        select(
            _R.address, _R.reason, func.max(_R.code), func.sum(_R.count),
            func.min(_R.minute), func.max(_R.minute),
        )
        .where(_R.workspace == workspace, _R.inbox == inbox, which)
        .group_by(_R.address, _R.reason)
        .order_by(func.max(_R.minute).desc(), _R.address, _R.reason)
        .limit(most)
    )  # fmt: skip
    return [
        RefusedMail(row[0], row[1], row[2], int(row[3]), row[4], row[5])
        for row in tx.execute(query)
    ]
