"""An inbox, an expectation of it, and whoever sends mail to it; on a service with a worker."""

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

    async def send(self, raw: bytes, *, recipient: str = ADDRESS) -> None:
        """Accept a mail, and wait until it was read and judged."""
        envelope = MailEnvelope(mail_from="", recipients=(recipient,), origin="smtp")
        await self.desk.post.send(IncomingMail(envelope=envelope, content=MimeContent(raw)))
        await self.desk.until_done()

    async def settled(self, expectation: Expectation) -> Settlement:
        return (await self.standing(expectation))[1]

    async def standing(self, expectation: Expectation) -> tuple[ExpectationStanding, Settlement]:
        waiters = self.desk.service.expectations.waiters
        return await waiters.read("default", expectation.id)
