"""Providers that announce mail by their hooks, and the APIs that hand it over, or do not."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.manage.settings_file import apply_settings
from mailonce.pipeline.drive_flows import drive
from mailonce.pipeline.receive import receive
from mailonce.service import Service
from mailonce.settings import NetSettings, Settings, SourceSettings, WorkerSettings
from mailonce.store.schema.mail_tables import MAILS
from mailonce.testing import Post, Simulator, mail_posts, mail_settings, make_simulator
from mailonce.wiring import add_worker, build_service
from tests.endpoint import Endpoint
from tests.inbox.conftest import Desk
from tests.net.conftest import MAIL_HOSTS, Authority
from tests.providers.inbound.hooks import SENDER, arrival_of

# By the name of their source: a provider that is at fault in these tests, and two that are not.
# The first and the last have the same lane.
PROVIDERS = {"resend": "resend", "mailgun": "mailgun", "mailgun1": "mailgun"}
MODES = {"resend": "raw", "mailgun": "stored"}
RESEND = "api.resend.com"


def announcements(simulator: Simulator, subject: str, recipient: str, *, now_s: int) -> list[Post]:
    """Write the posts that say that there is a mail."""
    mail = (
        f"From: shop@example.org\r\nTo: {recipient}\r\nSubject: {subject}\r\n"
        f"Message-ID: <{subject}@example.org>\r\n\r\nHi\r\n"
    ).encode()
    mode = MODES[simulator.name]
    return mail_posts(
        simulator, mail, sender=SENDER, recipients=[recipient], now_s=now_s, mode=mode
    )


@dataclass
class ProviderApis:
    """The APIs of all providers: each answers what it should, unless its host is at fault."""

    simulators: Mapping[str, Simulator]
    # By host: the status that it answers with, or 0 where it never answers.
    faults: dict[str, int] = field(default_factory=dict)
    # The requests of each host, in all; those under way, and the most there were at once.
    asked: dict[str, int] = field(default_factory=dict)
    running: int = 0
    most: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        host = request.headers["Host"]
        self.asked[host] = self.asked.get(host, 0) + 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            while self.faults.get(host) == 0:
                await asyncio.sleep(0.02)
        finally:
            self.running -= 1
        if host in self.faults:
            # One that redirects leads to itself.
            return web.Response(status=self.faults[host], headers={"Location": str(request.url)})
        url = f"https://{host}{request.path_qs}"
        answers = (one.answers[url] for one in self.simulators.values() if url in one.answers)
        found = next(answers, FetchAnswer(status=404))
        return web.Response(status=found.status, body=found.body, headers=dict(found.headers))


class FetchDesk(Desk):
    """A desk with sources whose hooks announce mail, and the APIs that it is fetched from."""

    apis: ProviderApis
    settings: Settings

    async def announce(self, source: str, subject: str, recipient: str) -> None:
        """Post that there is a mail, as the source's provider does."""
        now_s = self.service.clock.now_ms() // 1000
        posts = announcements(self.apis.simulators[source], subject, recipient, now_s=now_s)
        receiving = self.service.receiving
        for post in posts:
            arrival = arrival_of(post, now_s=now_s)
            reply = await drive(receiving, receive(receiving, source, arrival))
            assert reply.code // 100 == 2, reply

    async def of_source(self, source: str) -> list[dict[str, Any]]:
        return [row for row in await self.rows(MAILS) if row["source"] == f"src_{source}"]

    async def until_read(self, *inboxes: str, seconds: float = 30) -> None:
        """Wait until all mail of these inboxes was read."""

        async def check() -> bool:
            own = [row for row in await self.rows(MAILS) if row["inbox"] in inboxes]
            return all(row["message"] is not None for row in own)

        await self.until(check, seconds=seconds)

    async def until_asked(self, many: int) -> None:
        """Wait until so many requests are under way."""

        async def check() -> bool:
            return self.apis.running >= many

        await self.until(check)

    async def until_tried(self, source: str) -> None:
        """Wait until each mail of a source could not be read at least once."""

        async def check() -> bool:
            return all(row["error"] is not None for row in await self.of_source(source))

        await self.until(check)


@asynccontextmanager
async def serving_apis(authority: Authority) -> AsyncIterator[tuple[ProviderApis, NetSettings]]:
    """Run the APIs, and give the settings by which they are reached."""
    apis = ProviderApis({name: make_simulator(kind, name) for name, kind in PROVIDERS.items()})
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", apis.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.new_context())
    await site.start()
    place = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield (
            apis,
            NetSettings(hosts=dict.fromkeys(MAIL_HOSTS, place), ca_file=authority.ca_file),
        )
    finally:
        apis.faults.clear()
        await runner.cleanup()


async def start_worker(settings: Settings) -> Service:
    """Start a process that reads mail."""
    service = await build_service(settings)
    await apply_settings(service.manage, settings)
    add_worker(service, settings)
    await service.start(maintains=False)
    return service


@asynccontextmanager
async def opened_desk(
    database_url: str, folder: Path, authority: Authority
) -> AsyncIterator[FetchDesk]:
    """Run a worker beside the APIs; one failure would open a breaker for a minute."""
    async with serving_apis(authority) as (apis, net):
        settings = Settings(
            data_dir=folder,
            database=database_url,
            net=net,
            sources={
                name: SourceSettings(**mail_settings(one)) for name, one in apis.simulators.items()
            },
            worker=WorkerSettings(breaker_failures=1, breaker_wait_s=60),
        )
        service = await start_worker(settings)
        endpoint = await Endpoint().start()
        desk = FetchDesk(service, endpoint)
        desk.apis, desk.settings = apis, settings
        try:
            yield desk
        finally:
            apis.faults.clear()
            await desk.service.stop()
            await endpoint.stop()
