"""Mail that was refused, by the inbox or the domain that it was for."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from mailonce.core.inboxes.inbox import spellings_of
from mailonce.core.mail.address import read_address
from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.inboxes import domains, inboxes
from mailonce.store.schema.mail_tables import MAIL_REFUSALS

_R = MAIL_REFUSALS.c


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


def add_all(tx: Connection, counts: Mapping[MailRefusal, int]) -> None:
    """Store counters with those whom they concern; mail for a domain of nobody's is forgotten."""
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
            continue
        fields = one._asdict() | {"workspace": workspace, "inbox": inbox, "count": count}
        del fields["domain"]
        rows.append(fields)
    if rows:
        insert_or_add(tx, MAIL_REFUSALS, rows, add=("count",))


def _spellings(address: str) -> tuple[str, ...]:
    read = read_address(address)
    return () if read is None else spellings_of(read)


def of_inbox(
    tx: Connection, workspace: str, inbox: str, *, since_minute: int, most: int
) -> list[RefusedMail]:
    """List what was refused to an inbox since a minute, by address and reason."""
    return _list(tx, workspace, inbox, _R.minute >= since_minute, most=most)


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
