"""Our own checks of a sender, made while mail is read: shown, kept, and never in its way."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from msgspec import structs

from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.core.mail.incoming import (
    Authentication,
    AuthenticationCheck,
    IncomingMail,
    MailEnvelope,
    MimeContent,
)
from mailonce.inbox import sender_checks
from mailonce.inbox.sender_checks import SenderChecks
from mailonce.net.dns_lookup import BoundedResolver
from mailonce.settings import NetSettings, Settings
from mailonce.settings.inboxes import InboxSettings
from mailonce.store.schema.mail_tables import MESSAGES
from mailonce.wiring import add_worker, build_service
from tests.endpoint import Endpoint
from tests.inbox.conftest import Desk
from tests.net.name_server import NameServer, running_name_server

MAIL = b"From: shop@example.com\r\nSubject: %d\r\nMessage-ID: <%d@example.com>\r\n\r\nHi\r\n"


@pytest.fixture
def names() -> Iterator[NameServer]:
    with running_name_server() as server:
        server.add_text("example.com", "v=spf1 ip4:192.0.2.7 -all")
        server.add_text("_dmarc.example.com", "v=DMARC1; p=reject")
        yield server


@pytest_asyncio.fixture
async def desk(
    request: pytest.FixtureRequest,
    database_url: str,
    tmp_path: Path,
    names: NameServer,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Desk]:
    def bounded(nameservers: Any) -> BoundedResolver:
        return BoundedResolver(nameservers, total_s=60.0, lookup_s=getattr(request, "param", 30.0))

    monkeypatch.setattr(sender_checks, "BoundedResolver", bounded)
    endpoint = await Endpoint().start()
    settings = Settings(
        data_dir=tmp_path,
        database=database_url,
        net=NetSettings(allow_hosts=[endpoint.host], nameservers=[names.place]),
        inboxes=InboxSettings(check_senders=True),
    )
    service = await build_service(settings)
    add_worker(service, settings)
    await service.start(maintains=False)
    yield Desk(service, endpoint)
    await service.stop()
    await endpoint.stop()


def incoming(number: int, **more: Any) -> IncomingMail:
    envelope = MailEnvelope(
        mail_from="shop@example.com",
        recipients=("ann@in.test",),
        origin="smtp",
        client_ip="192.0.2.7",
        helo="mx.example.com",
    )
    return IncomingMail(envelope=envelope, content=MimeContent(MAIL % (number, number)), **more)


async def shown(desk: Desk) -> list[dict[str, Any] | None]:
    """Give what each message says of its sender, in their order."""
    rows = sorted(await desk.rows(MESSAGES), key=lambda row: int(row["seq"]))
    return [orjson.loads(row["document"])["authentication"] for row in rows]


async def test_a_message_says_what_was_found_out_and_by_whom(desk: Desk) -> None:
    await desk.post.make("ann@in.test")
    told = Authentication(spf=AuthenticationCheck(result="softfail", domain="example.com"))

    await desk.post.send(incoming(1))
    await desk.post.send(incoming(2, authentication=told))
    await desk.until_done()

    [ours, theirs] = await shown(desk)
    assert ours is not None
    assert theirs is not None
    assert (ours["checked_by"], ours["spf"]["result"], ours["dmarc"]["result"]) == (
        "self",
        "pass",
        "pass",
    )
    assert (theirs["checked_by"], theirs["spf"]["result"]) == ("provider", "softfail")


@pytest.mark.parametrize("desk", [0.2], indirect=True)
async def test_a_silent_dns_delays_no_mail_for_long_and_loses_none(
    desk: Desk, names: NameServer
) -> None:
    names.silent = {"*"}
    await desk.post.make("ann@in.test")

    for number in range(12):
        await desk.post.send(incoming(number))
    await desk.until_done()

    found = await shown(desk)
    assert len(found) == 12
    assert {one["spf"]["result"] for one in found if one} == {"temperror"}


async def test_reprocessing_keeps_what_was_found_out_then(desk: Desk, names: NameServer) -> None:
    await desk.add_route(events=["inbound"])
    await desk.post.make("ann@in.test")
    await desk.post.send(incoming(1))
    await desk.until_done()
    names.records.clear()

    reruns = desk.service.reruns
    await reruns.make("default", RerunKind.REPROCESSING, RerunFilter())

    async def is_sent_again() -> bool:
        return len(desk.endpoint.requests) == 2

    await desk.until(is_sent_again)
    first, again = (orjson.loads(one.body)["message"] for one in desk.endpoint.requests)
    assert first["authentication"]["checked_by"] == "self"
    assert again["authentication"] == first["authentication"]


async def test_who_finds_all_threads_busy_is_not_kept_waiting(names: NameServer) -> None:
    names.silent = {f"n{number}.test" for number in range(sender_checks.THREADS_MAX)}
    checks = SenderChecks(BoundedResolver([names.place], lookup_s=2), wait_s=0.01)

    def sent_by(number: int) -> MailEnvelope:
        return structs.replace(incoming(1).envelope, mail_from=f"a@n{number}.test")

    slow = [
        asyncio.create_task(checks.check(b"Subject: x\r\n\r\n", sent_by(number)))
        for number in range(sender_checks.THREADS_MAX)
    ]
    await asyncio.sleep(0)
    quick = await checks.check(MAIL, incoming(1).envelope)
    found = await asyncio.gather(*slow)
    again = await checks.check(b"Subject: x\r\n\r\n", incoming(1).envelope)

    assert quick == sender_checks.BUSY
    assert {one.spf.result for one in found if one and one.spf} == {"temperror"}
    assert again is not None
    assert again.spf is not None
    assert again.spf.detail != sender_checks.BUSY.spf.detail  # type: ignore[union-attr]
