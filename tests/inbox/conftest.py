"""Inboxes on both databases, with a recorder that keeps mail."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from sqlalchemy import select

from mailonce.clock import Clock
from mailonce.core.ids import public
from mailonce.core.inboxes.inbox import Inbox, KnownInbox
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.inbox.accept import AcceptedMail, MailAcceptance
from mailonce.inbox.refusals import MailRefusals
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes
from mailonce.store.schema.mail_tables import MAILS
from mailonce.telemetry import Metrics

RAW = b"From: shop@example.org\r\nTo: ann@in.test\r\nSubject: hello\r\n\r\nHi Ann\r\n"


def make_mail(raw: bytes = RAW, *recipients: str) -> IncomingMail:
    envelope = MailEnvelope(
        mail_from="shop@example.org", recipients=recipients or ("ann@in.test",), origin="smtp"
    )
    return IncomingMail(envelope=envelope, content=MimeContent(raw))


class Post:
    """Makes inboxes and brings them mail."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.clock = Clock()
        self.recorder = Recorder(database, self.clock, Metrics(), Limits())
        self.refusals = MailRefusals(database, self.clock, self.clock.new_id())
        self.acceptance = MailAcceptance(database, self.clock, self.recorder, self.refusals)

    async def make(self, address: str, **changes: Any) -> Inbox:
        inbox = Inbox(
            id=public("inb", self.clock.new_id()),
            workspace=changes.pop("workspace", "default"),
            address=address,
            created_ms=self.clock.now_ms(),
            **changes,
        )
        await self.database.write(lambda tx: inboxes.insert_all(tx, [inbox], request_keys=[None]))
        return inbox

    async def send(self, mail: IncomingMail) -> AcceptedMail:
        places = [await self.acceptance.check(one) for one in mail.envelope.recipients]
        known = [place for place in places if isinstance(place, KnownInbox)]
        assert len(known) == len(places), places
        return await self.acceptance.accept(mail, known)

    async def mails(self) -> list[dict[str, Any]]:
        query = select(MAILS).order_by(MAILS.c.inbox, MAILS.c.seq, MAILS.c.key)
        rows = await self.database.read(lambda tx: tx.execute(query).mappings().all())
        return [dict(row) for row in rows]


@pytest_asyncio.fixture
async def post(database: Database) -> AsyncIterator[Post]:
    made = Post(database)
    made.recorder.start()
    yield made
    await made.recorder.close()
    await asyncio.sleep(0)
