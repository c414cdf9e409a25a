"""Inboxes on both databases, with a recorder that keeps mail."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest_asyncio
from sqlalchemy import select

from mailonce.clock import Clock
from mailonce.core.ids import ArrivalId, public
from mailonce.core.inboxes.inbox import Inbox, KnownInbox
from mailonce.core.inboxes.mail_items import BlobRow
from mailonce.core.inboxes.message_items import AttachmentRow, MessageItem, MessageRow
from mailonce.core.ledger.entry import Entry
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

    async def read(self, key: bytes, *attachments: bytes) -> str:
        """Keep a message for a mail, by the group commit; give its id."""
        entry, id_ = await self.reading(key, *attachments)
        await self.recorder.record(entry)
        return id_

    async def reading(self, key: bytes, *attachments: bytes) -> tuple[Entry, str]:
        """Read a mail, and give what is then recorded, with the id of the message."""
        [row] = [one for one in await self.mails() if one["key"] == key]
        id_ = f"msg_{sha256(row['sha256'] + row['inbox'].encode()).hexdigest()[:32]}"
        item = MessageItem(
            MessageRow(
                id=id_, workspace=row["workspace"], inbox=row["inbox"], seq=row["seq"], mail=key,
                accepted_ms=row["made_ms"], message_id="", thread="", kind="mail", sender="",
                subject="", document=b"{}",
            ),
            tuple(
                AttachmentRow(
                    id_, place, row["workspace"], f"att_{place}", sha256(one).digest(), "a.txt",
                    "text/plain", len(one), None,
                )
                for place, one in enumerate(attachments)
            ),
            tuple(
                BlobRow(row["workspace"], sha256(one).digest(), one) for one in set(attachments)
            ),
        )  # fmt: skip
        return Entry(
            id=ArrivalId(self.clock.new_id()),
            workspace=row["workspace"],
            source="digest",
            account="digest",
            arrival_key=key.hex(),
            body=b"",
            headers=b"{}",
            signs_body=False,
            events=(),
            items=(item,),
        ), id_

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
