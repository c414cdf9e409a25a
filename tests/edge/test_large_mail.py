"""Mail may be larger than webhooks: at its own sources, for who is proven, and within the total."""

import asyncio
import functools
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailonce.edge.cli import serve
from mailonce.edge.cli.listeners import bind
from mailonce.edge.connections import ClientConnections
from mailonce.edge.http.app import build_app
from mailonce.edge.http.client_limits import CROWD, DoorLimits
from mailonce.edge.http.loop_turn import Turn
from mailonce.edge.http.protocol import DoorProtocol
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import DoorSettings, LimitSettings, Settings, SourceSettings
from mailonce.testing import mail_post, mail_settings, make_simulator
from mailonce.wiring import build_service
from tests.acceptance.harness import SECRET

MB = 1 << 20
SENDGRID = make_simulator("sendgrid", "1")
BASIC = "Basic " + b64encode(b"mail:word").decode()
LIMITS = LimitSettings(body_bytes_max=MB, mail_bytes_max=4 * MB)


@dataclass
class Rig:
    service: Service
    connections: ClientConnections[DoorLimits]
    port: int

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def send(self, request: bytes) -> tuple[int, dict[str, object]]:
        """Send a request, and read the answer even where it comes before the request's end."""
        reader, writer = await self.connect()
        try:
            writer.write(request)
            return await heard(reader)
        finally:
            writer.close()

    def post(self, name: str, body: bytes, **headers: str) -> bytes:
        return head(name, len(body), **headers) + body


def head(name: str, length: int | None, **headers: str) -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"POST /in/{name} HTTP/1.1", "Host: h", size]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


async def heard(reader: asyncio.StreamReader) -> tuple[int, dict[str, object]]:
    async with asyncio.timeout(60):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(one.split(":")[1]) for one in lines if one.startswith("content-length"))
        return int(lines[0].split()[1]), json.loads(await reader.readexactly(length))


@asynccontextmanager
async def running(database_url: str, tmp_path: Path, **settings: object) -> AsyncIterator[Rig]:
    given = Settings(
        database=database_url,
        data_dir=tmp_path,
        admin_key="admin-key-for-tests",
        sources={
            "events": SourceSettings(provider="sesmetric", secret=SECRET),
            "signed": SourceSettings(**mail_settings(SENDGRID)),
            "behind": SourceSettings(provider="postmark", basic="mail:word"),
        },
        **{"limits": LIMITS, **settings},  # type: ignore[arg-type]
    )
    service = await build_service(given)
    await apply_settings(service.manage, given)
    await service.start()
    connections = ClientConnections(serve._limits(given), service.metrics.door, CROWD)
    protocol = functools.partial(
        DoorProtocol, service=service, turn=Turn(service), connections=connections
    )
    connections.start()
    listener = bind("127.0.0.1", 0, option="--port")
    listener.listen(100)
    server = serve._Server(serve._config(build_app(service), protocol))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield Rig(service, connections, listener.getsockname()[1])
    finally:
        server.should_exit = True
        await serving
        await connections.stop()
        await service.stop()


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    path = tmp_path / "m.db"
    path.write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{path}"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


def signed_mail(rig: Rig, size_bytes: int) -> bytes:
    """Write a request with a mail of about that size, signed now."""
    mail = b"From: bob@example.org\r\nSubject: Hi\r\n\r\n" + b"x" * 70 * (size_bytes // 70)
    now_s = rig.service.clock.now_ms() // 1000
    post = mail_post(
        SENDGRID, mail, sender="b@example.org", recipients=["in@example.net"], now_s=now_s
    )
    return head("signed", len(post.body), **post.headers) + post.body


@pytest.mark.parametrize("megabytes", [12, pytest.param(31, marks=pytest.mark.long)])
async def test_a_large_mail_is_taken_where_mail_comes_and_nowhere_else(
    database_url: str, tmp_path: Path, megabytes: int
) -> None:
    """At the default limits, on both databases; providers send up to 30 MB."""
    async with running(database_url, tmp_path, limits=LimitSettings()) as rig:
        code, answer = await rig.send(signed_mail(rig, megabytes * MB))
        again, copy = await rig.send(signed_mail(rig, megabytes * MB))
        other = await rig.send(head("events", 11 * MB) + b"x" * (11 * MB))

    assert (code, answer["status"], answer["new"]) == (200, "accepted", 1)
    assert (again, copy["status"], copy["new"]) == (200, "duplicate", 0)
    assert other == (413, {"detail": f"the body is above {10 * MB} bytes"})


async def test_a_mail_above_its_own_limit_is_refused_unread(
    sqlite_url: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with running(sqlite_url, tmp_path) as rig:
        with subtests.test("its length is declared"):
            assert await rig.send(head("signed", 4 * MB + 1)) == (
                413,
                {"detail": f"the body is above {4 * MB} bytes"},
            )
        with subtests.test("it comes in chunks"):
            piece = b"%x\r\n" % MB + b"x" * MB + b"\r\n"
            code, _ = await rig.send(head("signed", None) + piece * 4 + b"1\r\nx\r\n")
            assert code == 413
        with subtests.test("chunks up to the limit are judged"):
            code, answer = await rig.send(head("signed", None) + piece * 4 + b"0\r\n\r\n")
            assert (code, answer["detail"]) == (401, "missing signature")
        await until(lambda: rig.connections.held_bytes == 0)
        count = rig.service.metrics.refusals.labels("src_signed", "too large")._value.get()
        assert count == 2


async def test_who_lacks_the_password_is_told_before_the_body(
    sqlite_url: str, tmp_path: Path
) -> None:
    wrong = "Basic " + b64encode(b"mail:guess").decode()
    async with running(sqlite_url, tmp_path) as rig:
        # Of each only the head is sent.
        without = await rig.send(head("behind", 3 * MB))
        guessed = await rig.send(head("behind", 3 * MB, Authorization=wrong))
        held = rig.connections.held_bytes
        reader, writer = await rig.connect()
        writer.write(head("behind", 3 * MB, Authorization=BASIC, Expect="100-continue"))
        asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        writer.write(b'{"FromFull":{}, "OriginalRecipient": "in@example.net", "TextBody": "')
        writer.write(b"x" * (3 * MB - 70) + b'"}')
        code, answer = await heard(reader)
        writer.close()
        refusals = rig.service.metrics.refusals

        assert without == (401, {"status": "refused", "detail": "no password"})
        assert guessed == (401, {"status": "refused", "detail": "wrong password"})
        assert refusals.labels("src_behind", "wrong password")._value.get() == 1

    assert held == 0
    assert asked.startswith(b"HTTP/1.1 100")
    assert (code, answer["status"]) == (200, "accepted")


async def test_bodies_that_nobody_has_proven_count_against_the_total(
    sqlite_url: str, tmp_path: Path
) -> None:
    door = DoorSettings(held_bytes_max=6 * MB)
    async with running(sqlite_url, tmp_path, door=door) as rig:
        first, one = await rig.connect()
        one.write(head("signed", 4 * MB) + b"x" * (4 * MB - 1))
        await until(lambda: rig.connections.held_bytes == 4 * MB - 1)
        second, two = await rig.connect()
        two.write(head("signed", 4 * MB) + b"x" * (3 * MB))

        refused = await heard(second)
        # It is the newcomer that is refused: the first has not stalled.
        one.write(b"x")
        judged = await heard(first)
        one.close()
        two.close()

        assert refused[0] == 503
        assert judged == (401, {"status": "refused", "detail": "missing signature"})
        await until(lambda: rig.connections.held_bytes == 0)


async def test_the_limit_of_mail_is_never_above_what_can_be_held(
    sqlite_url: str, tmp_path: Path
) -> None:
    door = DoorSettings(held_bytes_max=2 * MB)
    async with running(sqlite_url, tmp_path, door=door) as rig:
        assert await rig.send(head("signed", 3 * MB)) == (
            413,
            {"detail": f"the body is above {2 * MB} bytes"},
        )


async def test_of_bodies_as_large_as_mail_one_is_looked_at_at_a_time(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with running(sqlite_url, tmp_path, limits=LimitSettings()) as rig:
        receiving = rig.service.receiving
        await receiving.huge.acquire()
        waiting = asyncio.create_task(rig.send(signed_mail(rig, 11 * MB)))
        await until(lambda: rig.connections.held_bytes > 11 * MB)
        small = await rig.send(signed_mail(rig, 5 * MB))
        is_waiting = not waiting.done()
        receiving.huge.release()
        large = await waiting

    assert is_waiting
    assert (small[0], large[0]) == (200, 200)
