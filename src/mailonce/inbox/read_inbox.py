"""Read an inbox, with what proves that nothing else came: who listened, and what was refused."""

from typing import NamedTuple

from mailonce.core.inboxes.inbox import Inbox
from mailonce.inbox.mail_parts import MailParts
from mailonce.inbox.waiting import InboxPage
from mailonce.store.inboxes.refusals import RefusedMail


class InboxAnswer(NamedTuple):
    """A page of an inbox; since when a door listened without a gap; what was refused meanwhile."""

    page: InboxPage
    listening_since_ms: int | None
    refused: list[RefusedMail]


async def with_proof(mail: MailParts, inbox: Inbox, page: InboxPage, *, after: int) -> InboxAnswer:
    """Add to a page behind `after` what was refused since the message of that number.

    Raises: UnavailableError; a database that does not answer is never an empty inbox.
    """
    refused = await mail.refusals.since(inbox, after=after)
    return InboxAnswer(page, await mail.listening.since_ms(), refused)
