"""Read mail again with today's code, to deliver what it says now under a new key."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from mailonce.core.events.event import Event
from mailonce.core.mail.incoming import ContentFormat, FetchContent, read_content
from mailonce.inbox.digest_mail import DigestRules, read_mail
from mailonce.queue.rerun import ReadArrival, ReadArrivals
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import messages
from mailonce.store.inboxes.messages import MailToRead


@dataclass(frozen=True, slots=True)
class RereadMail:
    """The events that today's code makes of a mail."""

    events: tuple[Event, ...]

    def event(self, position: int) -> Event | None:
        """Give the event at a position, or None where today's code makes none."""
        return self.events[position] if 0 <= position < len(self.events) else None


def with_mail(read: ReadArrivals, database: Database, rules: DigestRules) -> ReadArrivals:
    """Give a function that reads arrivals of a workspace anew, and mail as well."""

    async def read_all(workspace: str, ids: Iterable[bytes]) -> Mapping[bytes, ReadArrival]:
        wanted = set(ids)
        arrivals = dict(await read(workspace, wanted))
        for key in sorted(wanted - arrivals.keys()):
            mail = await database.read(partial(messages.mail, key=key))
            if mail is not None and mail.workspace == workspace and mail.message is not None:
                arrivals[key] = await asyncio.to_thread(_reread, mail, rules)
        return arrivals

    return read_all


def _reread(mail: MailToRead, rules: DigestRules) -> RereadMail:
    content = read_content(ContentFormat(mail.format), mail.content or b"")
    if mail.content is None or mail.seq is None or isinstance(content, FetchContent):
        return RereadMail(())
    return RereadMail(tuple(read_mail(mail, content, rules).events))
