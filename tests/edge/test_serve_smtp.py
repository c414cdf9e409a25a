"""The SMTP door of `mailonce serve`, before real inboxes: its port, and what is stored."""

import asyncio
import shutil
import smtplib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mailonce.core.access import Caller, Scope
from mailonce.core.inboxes.inbox_request import InboxRequest
from mailonce.edge.cli.serve_smtp import bind_smtp, build_smtp
from mailonce.errors import ConfigError
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import InboxSettings, Role, Settings, SmtpSettings
from mailonce.store.inboxes import inboxes
from mailonce.wiring import build_service

ADMIN = Caller("default", Scope.ADMIN)
Open = Callable[..., Any]


@pytest.fixture
async def open_service(sqlite_template: Path, tmp_path: Path) -> AsyncIterator[Open]:
    stack = AsyncExitStack()

    @asynccontextmanager
    async def opened(settings: Settings) -> AsyncIterator[Service]:
        service = await build_service(settings)
        await apply_settings(service.manage, settings)
        await service.start()
        try:
            yield service
        finally:
            await service.stop()

    async def start(**given: Any) -> tuple[Settings, Service]:
        shutil.copy(sqlite_template, tmp_path / "m.db")
        settings = Settings(
            database=f"sqlite:///{tmp_path / 'm.db'}",
            data_dir=tmp_path,
            admin_key="admin-key-for-tests",
            inboxes=InboxSettings(domains=["in.test"]),
            **given,
        )
        return settings, await stack.enter_async_context(opened(settings))

    yield start
    await stack.aclose()


def send(address: str, recipients: list[str], mail: bytes) -> dict[str, tuple[int, bytes]]:
    host, _, port = address.rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=30) as client:
        return client.sendmail("a@b.test", recipients, mail)


async def test_a_mail_is_numbered_in_each_inbox_and_the_door_says_that_it_listens(
    open_service: Open,
) -> None:
    settings, service = await open_service(smtp=SmtpSettings(port=0))
    requests = [InboxRequest(local=name) for name in ("one", "two")]
    made = (await service.manage.inboxes.make(ADMIN, requests)).inboxes
    smtp = build_smtp(settings, service, bind_smtp(settings), files=1024)
    assert smtp is not None
    assert await service.mail.listening.since_ms() is None
    await smtp.start()
    try:
        recipients = ["one@in.test", "TWO+tag@in.test", "none@in.test"]

        refused = await asyncio.to_thread(
            send, smtp.address, recipients, b"Subject: x\r\n\r\ny\r\n"
        )

        assert {who: code for who, (code, _) in refused.items()} == {"none@in.test": 550}
        ids = [inbox.id for inbox in made]
        kept = await service.database.read(lambda tx: inboxes.find(tx, "default", ids))
        assert [kept[one].seq for one in ids] == [1, 1]
        await service.mail.listening.beat()
        service.mail.listening._known = None
        assert await service.mail.listening.since_ms() is not None
    finally:
        smtp.close()
        await smtp.stop()


async def test_the_usual_port_may_be_taken_and_a_chosen_one_may_not(open_service: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings, _ = await open_service()
        usual = settings.model_copy(update={"smtp": SmtpSettings.model_construct(set(), port=port)})
        with capture_logs() as logs:
            assert bind_smtp(usual) is None
        assert [one["event"] for one in logs] == ["smtp_port_taken"]

        for update in ({"smtp": SmtpSettings(port=port)}, {"roles": [Role.SMTP]}):
            chosen = usual.model_copy(update=update)
            with pytest.raises(ConfigError, match="--smtp-port"):
                bind_smtp(chosen)


async def test_of_two_that_start_together_one_has_the_usual_port_and_both_go_on(
    open_service: Open,
) -> None:
    settings, service = await open_service()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    usual = settings.model_copy(update={"smtp": SmtpSettings.model_construct(set(), port=port)})
    chosen = usual.model_copy(update={"roles": [Role.SMTP]})
    doors = [
        build_smtp(given, service, bind_smtp(given), files=1024) for given in (usual, usual, chosen)
    ]
    first, second, third = doors
    assert first is not None
    assert second is not None
    assert third is not None

    with capture_logs() as logs:
        started = [await first.start(), await second.start()]
    try:
        with pytest.raises(ConfigError, match="--smtp-port"):
            await third.start()
    finally:
        third.sockets.close()
        first.close()
        await first.stop()

    assert started == [True, False]
    assert [(one["event"], one["port"]) for one in logs] == [("smtp_port_taken", port)]


async def test_a_process_without_the_role_has_no_door(open_service: Open) -> None:
    settings, service = await open_service(roles=[Role.DOOR, Role.WORKER])

    assert build_smtp(settings, service, bind_smtp(settings), files=1024) is None


@pytest.mark.parametrize(
    ("smtp", "words"),
    [
        ({"certificate": Path("none.pem")}, "cannot be used"),
        ({"proxy_peers": ["haproxy"]}, "`smtp.proxy_peers` has 'haproxy'"),
        ({"unlimited": ["me"]}, "`smtp.unlimited` has 'me'"),
    ],
)
async def test_a_wrong_setting_is_named(
    open_service: Open, smtp: dict[str, Any], words: str
) -> None:
    settings, service = await open_service(smtp=SmtpSettings(port=0, **smtp))

    with pytest.raises(ConfigError, match=words):
        build_smtp(settings, service, bind_smtp(settings), files=1024)


@pytest.mark.parametrize(
    "given",
    [
        {"tls_port": 465},
        {"require_tls": True},
        {"users": {"ann": "word"}},
        {"require_auth": True},
        {"hostname": "two words"},
        {"held_bytes_max": 1 << 20, "message_bytes_max": 2 << 20},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"certificate|users|name|held_bytes_max"):
        SmtpSettings(**given)


def test_another_address_for_mail_needs_the_admin_key_too() -> None:
    assert Settings(smtp=SmtpSettings(host="0.0.0.0")).public_host == "0.0.0.0"
    assert Settings(smtp=SmtpSettings(host="0.0.0.0"), roles=[Role.DOOR]).public_host is None
    assert Settings(smtp=SmtpSettings(host="::1")).public_host is None
