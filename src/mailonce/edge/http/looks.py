"""What a request that waits looks at: the answer as JSON, or what it waits for.

The API's way and the short way of requests that wait (`parking`, `wait_cycle`) share these.
"""

from dataclasses import dataclass
from typing import Protocol

import orjson

from mailonce.core.access import Caller
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.query import MessageFilter
from mailonce.edge.http.parking import Wait
from mailonce.inbox.expectations.waiting import ExpectationWait
from mailonce.inbox.read_inbox import with_proof
from mailonce.inbox.waiting import InboxWait
from mailonce.service import Service
from mailonce.views import expectations, inbox_messages

_EVERY = MessageFilter()


class WaitLook(Protocol):
    """A question that is asked again whenever something happened."""

    @property
    def caller(self) -> Caller:
        """Who asks."""

    async def look(self, service: Service, *, waits: bool) -> bytes | Wait:
        """Give the answer; where there is none yet and one `waits`, what to wait for.

        Raises: MailonceError.
        """


@dataclass(frozen=True, slots=True)
class ExpectationLook:
    """Whether an expectation is still pending."""

    caller: Caller
    id: bytes

    async def look(self, service: Service, *, waits: bool) -> bytes | Wait:
        outcome = await service.expectations.waiters.look(
            self.caller.workspace, self.id, waits=waits
        )
        if isinstance(outcome, ExpectationWait):
            return outcome
        shown = expectations.expectation_json(self.caller, *outcome)
        return orjson.dumps(expectations.shown_to(self.caller, shown))


@dataclass(frozen=True, slots=True)
class InboxLook:
    """Whether mail has come behind a number."""

    caller: Caller
    inbox: Inbox
    after: int
    limit: int
    which: MessageFilter

    async def look(self, service: Service, *, waits: bool) -> bytes | Wait:
        page = await service.mail.readers.look(
            self.inbox.id,
            workspace=self.inbox.workspace,
            after=self.after,
            limit=self.limit,
            waits=waits,
            which=self.which,
        )
        if isinstance(page, InboxWait):
            return page
        answer = await with_proof(service.mail, self.inbox, page, after=self.after)
        return inbox_messages.page_json(
            await inbox_messages.show_messages(self.caller, answer.page.messages),
            next_=answer.page.next,
            unread=answer.page.unread,
            copies=answer.page.copies,
            listening_since_ms=answer.listening_since_ms,
            refused=answer.refused,
        )


class NamedInboxLook:
    """The same of an inbox that is found with the first look."""

    __slots__ = ("_after", "_limit", "_look", "_name", "caller")

    def __init__(self, caller: Caller, name: str, after: int, limit: int) -> None:
        self.caller = caller
        self._name = name
        self._after = after
        self._limit = limit
        self._look: InboxLook | None = None

    async def look(self, service: Service, *, waits: bool) -> bytes | Wait:
        if self._look is None:
            inbox = await service.manage.inboxes.find(self.caller, self._name)
            self._look = InboxLook(self.caller, inbox, self._after, self._limit, _EVERY)
        return await self._look.look(service, waits=waits)
