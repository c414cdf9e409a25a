"""A new master key takes over what older ones seal; an unreadable record costs itself."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mailonce.core.access import Caller, Scope
from mailonce.core.expectations.artifact import place_of
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.core.health.checkup import Level
from mailonce.manage.reencrypt import Reencryption, reencrypt
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import RouteSettings, SenderSettings, Settings, SourceSettings
from mailonce.store.expectations import artifacts
from mailonce.store.expectations.artifacts import NewArtifact
from mailonce.wiring import build_service

CALLER = Caller("default", Scope.ADMIN)
MAIN: dict[str, Any] = {"provider": "sesmetric", "secret": "a secret of main"}
OLD, NEW = "old " * 8, "new " * 8

Start = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Start:
    @asynccontextmanager
    async def starting(*keys: str, **given: Any) -> AsyncIterator[Service]:
        settings = Settings(
            data_dir=tmp_path,
            database=database_url,
            admin_key="admin-key-for-tests",
            master_key=list(keys),
            sources={"main": SourceSettings(**MAIN)},
            **given,
        )
        service = await build_service(settings)
        try:
            await apply_settings(service.manage, settings)
            yield service
        finally:
            await service.database.close()

    return starting


async def make_everything(service: Service) -> None:
    """Make one of each kind that is sealed; the file brings a source."""
    endpoint = RouteSettings(url="https://crm.example.com/hooks")
    await service.manage.routes.make(CALLER, "crm", endpoint)
    out = SenderSettings(provider="postmark", secret="token")
    await service.manage.senders.make(CALLER, "out", out)
    for number in range(5):
        id_ = bytes([number]) * 16
        place = place_of("default", id_)
        sealed = service.sealer.seal(b"123456", place=place, nonce=b"n" * 12)
        digests = (bytes([number]) * 32,)
        wanted = NewArtifact(id_, "default", "inb_1", ArtifactKind.CODE, digests, sealed)
        await service.database.write(partial(artifacts.ensure, wanted=wanted, now_ms=0))


async def test_after_a_reencryption_the_old_key_can_go(start: Start) -> None:
    async with start(OLD) as service:
        await make_everything(service)
    async with start(NEW, OLD) as service:
        parts = service.manage.parts
        before = {one.check: one for one in await service.examine()}
        version = service.snapshot.version

        first = await reencrypt(parts, slice_rows=2, rows_max=4)
        rest = await reencrypt(parts, slice_rows=2)
        again = await reencrypt(parts)

        after = {one.check: one for one in await service.examine()}
        assert (before["master keys"].level, after["master keys"].level) == (Level.WARN, Level.OK)
        assert before["master keys"].detail.startswith("8 stored secrets")
        assert first.encrypted + first.left == 8
        assert rest == Reencryption(encrypted=first.left, left=0)
        assert again == Reencryption(encrypted=0, left=0)
        assert service.snapshot.version > version
    async with start(NEW) as service:
        assert service.snapshot.unreadable == []
        assert service.snapshot.find_source("main").secrets == (MAIN["secret"],)  # type: ignore[union-attr]
        kept = await service.database.read(lambda tx: artifacts.get(tx, b"\0" * 16))
        assert service.expectations.parts.open_value(kept) == "123456"
        assert "master keys" not in {one.check for one in await service.examine()}


async def test_a_record_of_the_file_that_cannot_be_opened_costs_itself_alone(start: Start) -> None:
    routes = {"crm": {"url": "https://crm.example.com/hooks", "secret": "whsec_" + "B" * 32}}
    senders = {"out": {"provider": "postmark", "secret": "token"}}
    async with start(OLD, routes=routes, senders=senders):
        pass
    async with start(NEW, OLD) as service:
        hooks = SourceSettings(provider="sesmetric", secret="a secret of hooks")
        await service.manage.sources.make(CALLER, "hooks", hooks)

    async with start(NEW, routes=routes, senders=senders) as service:
        known = service.snapshot
        readable = {one.name: not one.is_unreadable for one in known.sources.values()}
        assert readable == {"main": False, "hooks": True}
        assert len(known.unreadable) == 3
        unopened = "its secrets cannot be opened"
        found = [one.check for one in await service.examine() if one.detail.startswith(unopened)]
        assert found == ["source main", "route crm", "sender out"]

    async with start(OLD, routes=routes, senders=senders) as service:
        known = service.snapshot
        assert [known.sources[id_].name for id_ in known.unreadable] == ["hooks"]
