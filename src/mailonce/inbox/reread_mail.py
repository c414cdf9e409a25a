"""Read mail again with today's code, to deliver what it says now under a new key."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
import orjson

from mailonce.core.events.event import Event
from mailonce.core.mail.incoming import (
    Authentication,
    ContentFormat,
    FetchContent,
    read_content,
    with_authentication,
)
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
                of = partial(messages.of_id, workspace=workspace, message=mail.message)
                stored = await database.read(of)
                known = None if stored is None else own_checks(stored.document)
                if known is not None:
                    mail = mail._replace(facts=with_authentication(mail.facts, known))
                arrivals[key] = await asyncio.to_thread(_reread, mail, rules)
        return arrivals

    return read_all


def own_checks(document: bytes) -> Authentication | None:
    """Give what we found out about a sender when a message was read: today's DNS may differ."""
    shown = orjson.loads(document).get("authentication")
    if shown is None or shown["checked_by"] != "self":
        return None
    return msgspec.convert(shown, Authentication)


def _reread(mail: MailToRead, rules: DigestRules) -> RereadMail:
    content = read_content(ContentFormat(mail.format), mail.content or b"")
    if mail.content is None or mail.seq is None or isinstance(content, FetchContent):
        return RereadMail(())
    return RereadMail(tuple(read_mail(mail, content, rules).events))
