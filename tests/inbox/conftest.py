"""Inboxes on both databases, with a recorder that keeps mail."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest_asyncio
from sqlalchemy import Table, select

from mailonce.clock import Clock
from mailonce.core.deliveries.route import Route
from mailonce.core.ids import ArrivalId, public
from mailonce.core.inboxes.inbox import Inbox, KnownInbox
from mailonce.core.inboxes.mail_items import BlobRow
from mailonce.core.inboxes.message_items import AttachmentRow, MessageItem, MessageRow
from mailonce.core.ledger.entry import Entry
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.core.record_origin import API
from mailonce.core.work.states import State
from mailonce.inbox.accept import AcceptedMail, MailAcceptance
from mailonce.inbox.refusals import MailRefusals
from mailonce.manage.records import route_of
from mailonce.pipeline.record import Limits, Recorder
from mailonce.service import Service
from mailonce.settings import NetSettings, RouteSettings, Settings
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import inboxes
from mailonce.store.schema.mail_tables import MAILS
from mailonce.store.schema.tables import DELIVERIES
from mailonce.telemetry import Metrics
from mailonce.wiring import add_worker, build_service
from tests.endpoint import Endpoint

RAW = b"From: shop@example.org\r\nTo: ann@in.test\r\nSubject: hello\r\n\r\nHi Ann\r\n"


def make_mail(raw: bytes = RAW, *recipients: str) -> IncomingMail:
    envelope = MailEnvelope(
        mail_from="shop@example.org", recipients=recipients or ("ann@in.test",), origin="smtp"
    )
    return IncomingMail(envelope=envelope, content=MimeContent(raw))


class Post:
    """Makes inboxes and brings them mail."""

    def __init__(self, database: Database, recorder: Recorder | None = None) -> None:
        self.database = database
        self.clock = Clock()
        self.metrics = Metrics()
        self.recorder = recorder or Recorder(database, self.clock, self.metrics, Limits())
        self.refusals = MailRefusals(database, self.clock, self.metrics, self.clock.new_id())
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


class Desk:
    """A service whose worker reads mail, and an endpoint that its routes deliver to."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self.service = service
        self.endpoint = endpoint
        self.post = Post(service.database, service.recorder)
        self.readers = service.mail.readers

    async def add_route(self, **settings: Any) -> Route:
        """Make a route to the endpoint."""
        given = RouteSettings(url=self.endpoint.url("/ok"), waits_s=[0.05] * 4, **settings)
        put = await self.service.manage.routes.put(route_of("hook", given), origin=API)
        return put.route

    async def rows(self, table: Table) -> list[dict[str, Any]]:
        rows = await self.service.database.read(
            lambda tx: tx.execute(select(table)).mappings().all()
        )
        return [dict(row) for row in rows]

    async def until(self, check: Callable[[], Awaitable[bool]], *, seconds: float = 60) -> None:
        """Wait for something true; the deadline turns a hang into a failure."""
        deadline = time.monotonic() + seconds
        while not await check():
            assert time.monotonic() < deadline, f"waited {seconds} s"
            await asyncio.sleep(0.01)

    async def until_done(self) -> None:
        """Wait until all mail was read and everything was delivered, or given up."""

        async def check() -> bool:
            rows = [*await self.rows(MAILS), *await self.rows(DELIVERIES)]
            return all(row["state"] >= State.DONE for row in rows)

        await self.until(check)


@pytest_asyncio.fixture
async def desk(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    endpoint = await Endpoint().start()
    settings = Settings(
        data_dir=tmp_path, database=database_url, net=NetSettings(allow_hosts=[endpoint.host])
    )
    service = await build_service(settings)
    add_worker(service, settings)
    await service.start(maintains=False)
    yield Desk(service, endpoint)
    await service.stop()
    await endpoint.stop()


@pytest_asyncio.fixture
async def post(database: Database) -> AsyncIterator[Post]:
    made = Post(database)
    made.recorder.start()
    yield made
    await made.recorder.close()
    await asyncio.sleep(0)
