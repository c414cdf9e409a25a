"""Crashes: what was acknowledged is there, once; what was not may be sent again."""

import asyncio
import itertools
import random
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance import sql
from tests.acceptance.harness import Server, event, running, signed
from tests.acceptance.load import Heard, post_all
from tests.acceptance.lossy import LossyProxy
from tests.servers import wait_for


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.long)])
async def test_what_was_acknowledged_survives_kill_9(server: Server, kills: int) -> None:
    chance = random.Random(5)
    heard = Heard()
    numbers = itertools.count()
    # Half of the posts repeat an earlier event, some of which were lost in the crash before.
    bodies = (event(n if n % 2 else chance.randrange(n + 1)) for n in numbers)

    for _ in range(kills):
        load = asyncio.create_task(post_all([server.url], bodies, heard=heard, clients=16))
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        server.kill()
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await asyncio.to_thread(server.start)

    stored = Counter(row["raw"]["id"] for row in server.all_events(raw=1))
    assert len(heard.acknowledged) > kills
    assert set(heard.acknowledged) <= set(stored)
    assert set(stored.values()) == {1}
    assert Counter(heard.statuses)["accepted"] <= len(stored)


async def test_sigterm_during_load_drains(server: Server) -> None:
    heard = Heard()
    bodies = (event(n) for n in itertools.count())
    load = asyncio.create_task(post_all([server.url], bodies, heard=heard, clients=16))
    async with asyncio.timeout(60):
        while len(heard.acknowledged) <= 50:
            await asyncio.sleep(0.01)

    code = await asyncio.to_thread(server.stop)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    await asyncio.to_thread(server.start)

    stored = {row["raw"]["id"] for row in server.all_events(raw=1)}
    assert code == 0
    assert set(heard.acknowledged) <= stored
    assert set(heard.codes) <= {200, 503}


async def test_a_commit_whose_answer_was_lost_is_run_again_and_doubles_nothing(
    postgres_url: str, tmp_path: Path
) -> None:
    async with LossyProxy(postgres_url) as proxy:
        server = Server(tmp_path / "server", proxy.url)
        # The proxy lives in this loop, so nothing here may block it.
        await asyncio.to_thread(server.start)
        try:
            proxy.lose_answer_to(b"evt_lost")
            bounce = event("lost", "bounce", bounce_type="hard")
            answer = await asyncio.to_thread(server.post, bounce)

            copy = await asyncio.to_thread(server.post, bounce)

            assert proxy.lost == 1
            assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
            assert copy.json()["status"] == "duplicate"
            for table in ("events", "suppressions", "facts", "counts"):
                assert sql.query(postgres_url, f"SELECT count(*) FROM {table}") == [(1,)], table
            assert sql.query(postgres_url, "SELECT sum(count)::int FROM counts") == [(1,)]
            assert sql.query(postgres_url, "SELECT count(*) FROM arrivals") == [(2,)]
        finally:
            server.kill()


def test_a_client_that_hangs_up_after_its_body_is_recorded(server: Server) -> None:
    body = b'{"id":"evt_gone","type":"delivery","message_id":"m"}'
    head = "".join(f"{name}: {value}\r\n" for name, value in signed(body).items())
    request = f"POST /in/main HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{head}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(request.encode() + body)

    wait_for(server.all_events, what="the event of a client that is gone")
    retry = server.post(body)

    assert retry.json()["status"] == "duplicate"
    assert len(server.all_events()) == 1


def test_the_settings_in_force_survive_a_power_cut(server: Server) -> None:
    if server.database.startswith("sqlite"):
        checks = {one["check"]: one["detail"] for one in server.get("/v1/checkup")["data"]}

        assert checks["journal_mode"] == "is wal"
        assert checks["synchronous"] == "is 2", "2 is FULL: each commit is flushed"
        return

    settings = sql.query(
        server.database,
        "SELECT name, setting FROM pg_settings "
        "WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') ORDER BY 1",
    )

    assert settings == [("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")]


def test_the_flush_is_seen_before_the_answer(tmp_path: Path) -> None:
    """Watch the system calls: the file is synced after the request came and before the 200 left."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed; `apt-get install strace` to see the flush")
    with running(Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}")) as server:
        server.post(event("warm"))
        trace = tmp_path / "trace"
        calls = "fsync,fdatasync,write,writev,sendto,sendmsg,read,recvfrom,recvmsg"
        tracer = subprocess.Popen(
            [strace, "-f", "-s", "64", "-e", f"trace={calls}", "-o", trace, "-p", str(server.pid)],
            stderr=subprocess.PIPE,
        )
        assert tracer.stderr is not None
        line = tracer.stderr.readline().decode()
        if "attach" in line and "not permitted" in line:
            pytest.skip(f"strace may not attach here: {line.strip()}")
        answer = server.post(event("seen"))
        time.sleep(0.5)
        tracer.terminate()
        tracer.wait()

    lines = trace.read_text(errors="replace").splitlines()
    received = _first(lines, r"(read|recv\w*)\(.*POST /in/main")
    flushed = _first(lines[received:], r"fdatasync\(|fsync\(") + received
    answered = _first(lines[received:], r"(write\w*|send\w*)\(.*HTTP/1\.1 200") + received
    assert answer.status_code == 200
    assert received < flushed < answered


def _first(lines: list[str], pattern: str) -> int:
    for number, line in enumerate(lines):
        if re.search(pattern, line):
            return number
    raise AssertionError(f"no line of the trace matches {pattern}: {lines[:40]}")
