"""All parts of sending that one process has."""

from dataclasses import dataclass

from mailonce.send.acts import SendActs
from mailonce.send.drive_submissions import Submissions
from mailonce.send.flight_book import FlightBook
from mailonce.send.forget_sends import SendPurge
from mailonce.send.render import Renderer
from mailonce.send.templates import MailTemplates
from mailonce.send.unsubscribe import UnsubscribeLinks

CLOSE_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendService:
    """What the doors call, and what the worker's steps share."""

    submissions: Submissions
    acts: SendActs
    templates: MailTemplates
    links: UnsubscribeLinks
    book: FlightBook
    purge: SendPurge
    renderer: Renderer

    async def close(self) -> None:
        """Write the outcomes that are left, within a time limit, and end the renderer."""
        await self.book.close(timeout_s=CLOSE_S)
        await self.renderer.close()
