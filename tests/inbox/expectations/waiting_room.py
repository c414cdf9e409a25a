"""An inbox, an expectation of it, and whoever sends mail to it; on a service with a worker."""

import dataclasses
from typing import Any

from mailonce.core.access import Caller, Scope
from mailonce.core.expectations.expectation import Expectation
from mailonce.core.expectations.expectation_request import ExpectationRequest
from mailonce.core.expectations.settle import Settlement
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.inbox.expectations.expectation_parts import ExpectationParts
from mailonce.inbox.expectations.open_expectation import open_expectation
from mailonce.store.expectations.standing import ExpectationStanding
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.schema.expectation_tables import ARTIFACTS
from tests.inbox.conftest import Desk

OPERATOR = Caller("default", Scope.OPERATOR, "key_operator")
AGENT = Caller("default", Scope.AGENT, "key_agent")
ADDRESS = "ann@in.test"


def code_mail(code: str, *, sender: str = "no-reply@shop.example", **headers: str) -> bytes:
    """Write a mail with a code."""
    fields = {"From": sender, "To": ADDRESS, "Subject": "Your sign-in", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{head}\r\nYour verification code is {code}.\r\n".encode()


def link_mail(url: str, *, sender: str = "no-reply@shop.example") -> bytes:
    return (
        f"From: {sender}\r\nTo: {ADDRESS}\r\nSubject: Confirm\r\n\r\n"
        f"Please confirm your address: {url}\r\n"
    ).encode()


class WaitingRoom:
    """Opens expectations of one inbox, and brings it mail."""

    def __init__(self, desk: Desk, inbox: str) -> None:
        self.desk = desk
        self.inbox = inbox

    @classmethod
    async def make(cls, desk: Desk) -> "WaitingRoom":
        return cls(desk, (await desk.post.make(ADDRESS)).id)

    @property
    def parts(self) -> ExpectationParts:
        return self.desk.service.expectations.parts

    async def open(
        self, kind: ArtifactKind = ArtifactKind.CODE, *, caller: Caller = OPERATOR, **fields: Any
    ) -> Expectation:
        request = ExpectationRequest(kind=kind, **fields)
        return (await open_expectation(self.parts, caller, self.inbox, request)).expectation

    async def accept(self, raw: bytes, *, recipient: str = ADDRESS) -> None:
        envelope = MailEnvelope(mail_from="", recipients=(recipient,), origin="smtp")
        await self.desk.post.send(IncomingMail(envelope=envelope, content=MimeContent(raw)))

    async def send(self, raw: bytes) -> None:
        """Accept a mail, and wait until it was read and judged."""
        await self.accept(raw)
        await self.desk.until_done()

    def change(self, **changes: Any) -> None:
        """Put other parts in the place of these."""
        for name, value in changes.items():
            object.__setattr__(self.parts, name, value)

    def wait_for_resends(self, seconds: float) -> None:
        self.change(rules=dataclasses.replace(self.parts.rules, resend_wait_s=seconds))

    async def turn_clock(self, seconds: float) -> None:
        """Let expectations see the database's clock so much ahead, or behind."""
        real = self.parts.now_ms

        async def turned() -> int:
            return await real() + int(seconds * 1000)

        self.change(now_ms=turned)

    async def are_waiting(self, many: int) -> bool:
        return self.desk.service.expectations.waiters.waiting == many

    async def delete_inbox(self) -> None:
        places = {InboxPlace("default", self.inbox)}
        await self.desk.service.mail.purge.delete(places, limit_s=60)

    async def sealed(self) -> list[dict[str, Any]]:
        return await self.desk.rows(ARTIFACTS)

    async def settled(self, expectation: Expectation) -> Settlement:
        return (await self.standing(expectation))[1]

    async def standing(self, expectation: Expectation) -> tuple[ExpectationStanding, Settlement]:
        waiters = self.desk.service.expectations.waiters
        return await waiters.read("default", expectation.id)
