"""One mail by every provider's hook, and by SMTP: the same message, on both databases."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest_asyncio
from aiohttp import web

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.core.mail.incoming import IncomingMail, MailEnvelope, MimeContent
from mailonce.manage.settings_file import apply_settings
from mailonce.pipeline.drive_flows import drive
from mailonce.pipeline.receive import Reply, receive
from mailonce.settings import NetSettings, Settings, SourceSettings
from mailonce.store.schema.mail_tables import MAILS, MESSAGES
from mailonce.store.schema.tables import DEAD_LETTERS, DELIVERIES, EVENTS
from mailonce.testing import Simulator, mail_posts, mail_settings, make_simulator
from mailonce.wiring import add_worker, build_service
from tests.endpoint import Endpoint
from tests.inbox.conftest import Desk
from tests.net.conftest import MAIL_HOSTS, Authority, authority
from tests.providers.inbound.hooks import SENDER, WAYS, Way, arrival_of, make_mail
from tests.providers.inbound.test_same_mail import FIELD_WAYS

__all__ = ["authority"]

# Brevo tells no envelope, so its inbox must stand in a header.
BREVO = "brevo-parsed@in.test"
MAIL = make_mail().replace(b"ann@example.net", BREVO.encode())
MIME_WAYS = [way for way in WAYS if str(way) not in FIELD_WAYS]
# What says by which way a mail came, and where it went.
OWN = (
    "id", "inbox", "address", "seq", "received_at", "envelope", "source", "authentication", "spam",
)  # fmt: skip
SAME = ("message_id", "from", "to", "cc", "reply_to", "subject", "date", "text", "html", "kind")


class Hooks(Desk):
    """A desk with a source for every way, and the APIs from which announced mail is fetched."""

    simulators: dict[Way, Simulator]

    async def hand_over(self, way: Way, mail: bytes, *recipients: str) -> list[Reply]:
        """Post a mail as the provider does, now."""
        now_s = self.service.clock.now_ms() // 1000
        posts = mail_posts(
            self.simulators[way],
            mail,
            sender=SENDER,
            recipients=recipients,
            now_s=now_s,
            mode=way.mode,
        )
        receiving = self.service.receiving
        arrivals = [arrival_of(post, now_s=now_s) for post in posts]
        return [await drive(receiving, receive(receiving, str(way), one)) for one in arrivals]

    async def documents(self, inbox: str) -> list[dict[str, Any]]:
        """Give the messages of an inbox; an attachment's id is no part of what they say."""
        page = await self.readers.read(inbox, workspace="default", after=0, limit=10)
        documents = [orjson.loads(one.document) for one in page.messages]
        for attachment in (one for document in documents for one in document["attachments"]):
            del attachment["id"]
        return documents


@pytest_asyncio.fixture
async def hooks(database_url: str, tmp_path: Path, authority: Authority) -> AsyncIterator[Hooks]:
    simulators = {way: make_simulator(way.name, "1") for way in WAYS}

    async def answer(request: web.Request) -> web.StreamResponse:
        url = f"https://{request.headers['Host']}{request.path_qs}"
        answers = (one.answers[url] for one in simulators.values() if url in one.answers)
        found = next(answers, FetchAnswer(status=404))
        return web.Response(status=found.status, body=found.body, headers=dict(found.headers))

    app = web.Application(client_max_size=1 << 20)
    app.router.add_route("GET", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.new_context())
    await site.start()
    place = f"127.0.0.1:{runner.addresses[0][1]}"
    endpoint = await Endpoint().start()
    net = NetSettings(
        allow_hosts=[endpoint.host],
        hosts=dict.fromkeys(MAIL_HOSTS, place),
        ca_file=authority.ca_file,
    )
    sources = {
        str(way): SourceSettings(**mail_settings(simulator))
        for way, simulator in simulators.items()
    }
    settings = Settings(data_dir=tmp_path, database=database_url, net=net, sources=sources)
    service = await build_service(settings)
    await apply_settings(service.manage, settings)
    add_worker(service, settings)
    await service.start(maintains=False)
    made = Hooks(service, endpoint)
    made.simulators = simulators
    yield made
    await service.stop()
    await endpoint.stop()
    await runner.cleanup()


async def test_one_mail_by_every_hook_is_the_same_message_once(hooks: Hooks) -> None:
    inboxes = {way: await hooks.post.make(f"{way}@in.test") for way in WAYS}

    for way in WAYS:
        # The second is a retry that the provider wrote anew.
        replies = await hooks.hand_over(way, MAIL, f"{way}@in.test")
        replies += await hooks.hand_over(way, MAIL, f"{way}@in.test")
        assert [one.code // 100 for one in replies] == [2, 2], way
        assert replies[0].body["status"] == "accepted", way
    await hooks.until_done()

    assert await hooks.rows(DEAD_LETTERS) == []
    found = {way: await hooks.documents(inboxes[way].id) for way in WAYS}
    assert {way: len(some) for way, some in found.items()} == dict.fromkeys(WAYS, 1)
    documents = {way: some[0] for way, some in found.items()}
    assert len(await hooks.rows(EVENTS)) == len(WAYS)
    first = documents[Way("sendgrid", "raw")]
    assert first["subject"] == "Grüße aus Köln"
    assert len(first["attachments"]) == 2
    for way in WAYS:
        names = first.keys() - set(OWN) if way in MIME_WAYS else SAME
        differing = {
            name: (documents[way][name], first[name])
            for name in names
            if documents[way][name] != first[name]
        }
        assert differing == {}, way


async def test_one_mail_by_smtp_and_by_every_hook_that_has_its_bytes_is_one_message(
    hooks: Hooks,
) -> None:
    inbox = await hooks.post.make("in@in.test")
    await hooks.add_route(events=["inbound"])
    envelope = MailEnvelope(mail_from=SENDER, recipients=("in@in.test",), origin="smtp")
    received = b"Received: from relay by us\r\n" + MAIL

    for way in MIME_WAYS:
        await hooks.hand_over(way, MAIL, "in@in.test")
    await hooks.post.send(IncomingMail(envelope=envelope, content=MimeContent(received)))
    await hooks.until_done()

    assert len(await hooks.rows(MAILS)) >= 2
    assert len(await hooks.rows(MESSAGES)) == 1
    assert len(await hooks.documents(inbox.id)) == 1
    assert len(await hooks.rows(EVENTS)) == len(await hooks.rows(DELIVERIES)) == 1
    assert len(hooks.endpoint.requests) == 1

    # What no inbox takes is an event of its source, and kept.
    for way in WAYS:
        replies = await hooks.hand_over(way, MAIL, f"nobody-{way}@in.test")
        assert all(one.code // 100 == 2 for one in replies), way
    rest = [row for row in await hooks.rows(EVENTS) if row["source"] != "digest"][-len(WAYS) :]
    assert {row["source"] for row in rest} == {f"src_{way}" for way in WAYS}
    assert {row["type"] for row in rest} == {"inbound"}
    assert len(await hooks.rows(MESSAGES)) == 1
