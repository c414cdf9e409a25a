"""Read an inbox, with what proves that nothing else came: who listened, and what was refused."""

from typing import NamedTuple

from mailonce.core.inboxes.inbox import Inbox
from mailonce.inbox.mail_parts import MailParts
from mailonce.inbox.waiting import InboxPage
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes import messages, refusals
from mailonce.store.inboxes.refusals import RefusedMail

REFUSALS_MAX = 100
MINUTE_MS = 60_000


class InboxAnswer(NamedTuple):
    """A page of an inbox; since when a door listened without a gap; what was refused meanwhile."""

    page: InboxPage
    listening_since_ms: int | None
    refused: list[RefusedMail]


async def with_proof(
    database: Database, mail: MailParts, inbox: Inbox, page: InboxPage, *, after: int
) -> InboxAnswer:
    """Add to a page behind `after` what was refused since the message of that number.

    What this process has refused is stored first: an answer without mail tells of it. Raises:
    UnavailableError; a database that does not answer is never an empty inbox.
    """
    await mail.refusals.flush()

    def work(tx: Tx) -> list[RefusedMail]:
        since_ms = messages.received_ms(tx, inbox.id, seq=after) or inbox.created_ms
        since = since_ms // MINUTE_MS
        return refusals.of_inbox(
            tx, inbox.workspace, inbox.id, since_minute=since, most=REFUSALS_MAX
        )

    refused = await database.read(work)
    return InboxAnswer(page, await mail.listening.since_ms(), refused)
