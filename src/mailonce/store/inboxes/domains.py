"""Mail domains; each belongs to one workspace."""

from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from mailonce.store.configuration import locks
from mailonce.store.schema.mail_tables import DOMAINS

_D = DOMAINS.c


class MailDomain(NamedTuple):
    """A domain that takes mail."""

    domain: str
    workspace: str
    origin: str
    created_ms: int


def claim(tx: Connection, wanted: MailDomain) -> MailDomain:
    """Make a domain a workspace's own, unless it has an owner; give the one that it has now."""
    locks.take(tx, locks.CONFIGURATION)
    known = get(tx, wanted.domain)
    if known is None:
        tx.execute(insert(DOMAINS).values(**wanted._asdict()))
        return wanted
    return known


def get(tx: Connection, domain: str) -> MailDomain | None:
    row = tx.execute(select(DOMAINS).where(_D.domain == domain)).first()
    return None if row is None else MailDomain(*row)


def list_of(tx: Connection, workspace: str) -> list[MailDomain]:
    """List the domains of a workspace, the oldest first."""
    query = select(DOMAINS).where(_D.workspace == workspace)
    return [MailDomain(*row) for row in tx.execute(query.order_by(_D.created_ms, _D.domain))]


def list_all(tx: Connection, *, most: int) -> list[MailDomain]:
    """List domains of every workspace, by name."""
    query = select(DOMAINS).order_by(_D.domain).limit(most)
    return [MailDomain(*row) for row in tx.execute(query)]


def remove(tx: Connection, workspace: str, domain: str) -> bool:
    """Let a domain go; say whether it was this workspace's."""
    gone = delete(DOMAINS).where(_D.workspace == workspace, _D.domain == domain)
    return tx.execute(gone).rowcount > 0
