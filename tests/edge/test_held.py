"""Bodies that wait to be judged count as held until they are answered, whatever is sent behind."""

import asyncio
import functools
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest_asyncio

from mailonce.edge.cli import serve
from mailonce.edge.cli.listeners import bind
from mailonce.edge.connections import ClientConnections
from mailonce.edge.http.app import build_app
from mailonce.edge.http.client_limits import CROWD, DoorLimits
from mailonce.edge.http.loop_turn import Turn
from mailonce.edge.http.protocol import DoorProtocol
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import DoorSettings, Settings, SourceSettings
from mailonce.wiring import build_service
from tests.acceptance.harness import SECRET
from tests.acceptance.lines import webhook

MB = 1 << 20
BODY = b"x" * (3 * MB)


@dataclass
class Rig:
    """A server that looks at no large body until it is let."""

    service: Service
    connections: ClientConnections[DoorLimits]
    port: int

    @property
    def waiting(self) -> int:
        waiters = self.service.receiving.large._waiters or ()
        return sum(not waiter.done() for waiter in waiters)


@pytest_asyncio.fixture
async def rig(sqlite_template: Path, tmp_path: Path) -> AsyncIterator[Rig]:
    shutil.copy(sqlite_template, tmp_path / "m.db")
    settings = Settings(
        database=f"sqlite:///{tmp_path / 'm.db'}",
        data_dir=tmp_path,
        admin_key="admin-key-for-tests",
        sources={"main": SourceSettings(provider="sesmetric", secret=SECRET)},
        door=DoorSettings(held_bytes_max=16 * MB),
    )
    service = await build_service(settings)
    await apply_settings(service.manage, settings)
    await service.start()
    connections = ClientConnections(serve._limits(settings), service.metrics.door, CROWD)
    protocol = functools.partial(
        DoorProtocol, service=service, turn=Turn(service), connections=connections
    )
    connections.start()
    listener = bind("127.0.0.1", 0, option="--port")
    listener.listen(100)
    server = serve._Server(serve._config(build_app(service), protocol))
    serving = asyncio.create_task(server.serve([listener]))
    large = service.receiving.large
    await large.acquire()
    await large.acquire()
    yield Rig(service, connections, listener.getsockname()[1])
    server.should_exit = True
    await serving
    await connections.stop()
    await service.stop()


async def until(holds: Callable[[], bool], *, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


async def test_whoever_is_refused_behind_a_waiting_body_does_not_free_its_room(rig: Rig) -> None:
    lines = []
    for number in range(12):
        _, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        lines.append(writer)
        writer.write(webhook(BODY, [("X-A", "b")]))
        if number < 5:
            await until(lambda count=number: rig.waiting > count)  # type: ignore[misc]
            continue
        # There is no room for more; those who wait send a bit more behind their request.
        for one in lines:
            one.write(b"y" * (250 << 10))
        await asyncio.sleep(0.2)
        assert rig.waiting * len(BODY) <= 16 * MB

    rig.service.receiving.large.release()
    rig.service.receiving.large.release()
    await until(lambda: not rig.waiting)
    for one in lines:
        one.close()
    await until(lambda: rig.connections.held_bytes == 0)
