"""Messages: the facts known of each of their recipients."""

from sqlalchemy import Connection, select

from mailonce.core.events.facts import Kind
from mailonce.core.ledger.entry import FactRow
from mailonce.core.query import other_spelling
from mailonce.store.filters import equal
from mailonce.store.schema.tables import FACTS


def known_id(tx: Connection, workspace: str, message_id: str, *, account: str | None) -> str:
    """Give the spelling under which a message is known: the given one, else the other.

    Where an account is named, what others know under that id does not count.
    """
    for spelling in (message_id, other_spelling(message_id)):
        accounts = accounts_of(tx, workspace, spelling)
        if accounts if account is None else account in accounts:
            return spelling
    return message_id


def accounts_of(tx: Connection, workspace: str, message_id: str) -> list[str]:
    """List the accounts that know a message of this id."""
    query = (
        select(FACTS.c.account)
        .where(FACTS.c.message_id == message_id, FACTS.c.workspace == workspace)
        .distinct()
        .order_by(FACTS.c.account)
    )
    return list(tx.scalars(query))


def facts_of(
    tx: Connection,
    workspace: str,
    message_id: str,
    *,
    account: str,
    recipient: str | None,
    limit: int,
) -> list[FactRow]:
    """List the facts of a message by recipient and kind."""
    place = (FACTS.c.workspace, FACTS.c.message_id, FACTS.c.recipient, FACTS.c.account)
    known = (FACTS.c.kind, FACTS.c.count, FACTS.c.first, FACTS.c.last)
    wanted = {"message_id": message_id, "account": account, "recipient": recipient}
    query = select(*place, *known).where(*equal(FACTS, workspace=workspace, **wanted))
    rows = tx.execute(query.order_by(FACTS.c.recipient, FACTS.c.kind).limit(limit))
    return [FactRow(*row[:4], Kind(row[4]), *row[5:]) for row in rows]
