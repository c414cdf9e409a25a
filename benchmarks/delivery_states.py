"""Deliveries of this state beside a former one, in alternating rounds: ratios, not speeds.

`python -m benchmarks deliveries --former CHECKOUT` runs this part, with `--quiet` the slow pace
alone; without a former state it says what this one does. CPU time is that of the processes
themselves (user and system), so that a busy machine disturbs it less than the clock.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import psutil

from benchmarks.processes import ROOT, Postgres, Server, start_mailonce, start_python
from tests.servers import free_port, start_postgres, wait_for

QUIET_RATE = 200
ROUTES = 8
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# What is promised of this state against the former one.
DRAIN_MIN, QUIET_CPU_MAX, QUIET_MS_MAX = 1.8, 0.7, 0.8

OWE = """
INSERT INTO deliveries (key, workspace, route, event, day, body, state, lane, due_ms, deadline_ms,
                        made_ms, attempts, round_began, redeliveries, again, token)
SELECT sha256(convert_to($1 || '|' || n, 'UTF8')), 'default', 'rte_r' || n % $3, '', 0,
       convert_to(format('{"type":"delivered","recipient":"customer-%s@example.net","text":"%s"}',
                         n + $4, repeat('x', 400)), 'UTF8'),
       0, 0, now_ms, now_ms + 86400000, now_ms, 0, 0, 0, false, 0
FROM generate_series(1, $2) AS n,
     (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) AS clock
"""


Lines = list[tuple[str, Callable[["State"], float], str]]


@dataclass(frozen=True, slots=True)
class Length:
    """How much to measure."""

    rounds: int
    owed: int
    quiet_s: int


FULL = Length(rounds=5, owed=16_000, quiet_s=10)
QUICK = Length(rounds=2, owed=4_000, quiet_s=5)


@dataclass(slots=True)
class State:
    """One checkout, and what its rounds gave."""

    title: str
    root: Path
    url: str
    endpoint: int
    drain_us: list[float] = field(default_factory=list)
    database_us: list[float] = field(default_factory=list)
    one_per_s: list[float] = field(default_factory=list)
    two_per_s: list[float] = field(default_factory=list)
    second_share: list[float] = field(default_factory=list)
    one_idle: list[float] = field(default_factory=list)
    two_idle: list[float] = field(default_factory=list)
    quiet_us: list[float] = field(default_factory=list)
    quiet_database_us: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)

    @property
    def more(self) -> str:
        """Its routes, which all post to one endpoint."""
        routes = [
            f'[routes.r{number}]\nurl = "http://127.0.0.1:{self.endpoint}/{number}"\n'
            f'secret = "{SECRET}"\nevents = ["{"*" if number == 0 else "complained"}"]\n'
            for number in range(ROUTES)
        ]
        return "".join(routes) + '[net]\nallow_hosts = ["127.0.0.1"]\n'


def run(
    stack: contextlib.ExitStack,
    place: Path,
    length: Length,
    former: Path | None,
    *,
    drains: bool = True,
) -> bool:
    """Measure and print; say whether the promises held. Without `drains`, the quiet pace only."""
    postgres = Postgres(start_postgres(shared_buffers="256MB", max_wal_size="2GB"))
    stack.callback(postgres.stop)
    states = []
    roots = {"former": former.resolve(), "this": ROOT} if former else {"this": ROOT}
    for title, root in roots.items():
        asyncio.run(_execute(postgres.url("postgres"), f"CREATE DATABASE {title}"))
        port = free_port()
        endpoint = start_python(["-m", "benchmarks.endpoint", str(port)])
        stack.callback(endpoint.wait)
        stack.callback(endpoint.kill)
        states.append(State(title, root, postgres.url(title), port))
    for turn in range(length.rounds):
        for state in states[:: 1 if turn % 2 else -1]:
            here = place / f"{state.title}-{turn}"
            here.mkdir()
            _quiet(state, postgres, here, turn, length)
            for workers in (1, 2) if drains else ():
                _drain(state, postgres, here, turn, length, workers)
    return _show(states)


def _drain(
    state: State, postgres: Postgres, place: Path, turn: int, length: Length, workers: int
) -> None:
    """Owe many deliveries to workers that wait for them."""
    with contextlib.ExitStack() as stack:
        servers: list[Server] = []
        for number in range(workers):
            server = start_mailonce(
                f"{workers}-workers-{number}", place, state.url,
                more=state.more, role="worker", root=state.root,
            )  # fmt: skip
            stack.callback(server.stop)
            servers.append(server)
        time.sleep(1)
        before = _count(state.endpoint)
        asyncio.run(_owe(state.url, f"{turn}-{workers}", length.owed, 100_000_000))
        started = time.monotonic()
        cpu = [server.cpu_s() for server in servers]
        database_s, idle_s = postgres.cpu_s(), psutil.cpu_times().idle
        wait_for(lambda: _count(state.endpoint) - before >= length.owed, seconds=180, what="all")
        took = time.monotonic() - started
        idle = (psutil.cpu_times().idle - idle_s) / took
        used = [server.cpu_s() - was for server, was in zip(servers, cpu, strict=True)]
        if workers == 1:
            state.drain_us.append(used[0] / length.owed * 1e6)
            state.database_us.append((postgres.cpu_s() - database_s) / length.owed * 1e6)
            state.one_per_s.append(length.owed / took)
            state.one_idle.append(idle)
        else:
            state.two_per_s.append(length.owed / took)
            state.two_idle.append(idle)
            state.second_share.append(min(used) / sum(used))
        wait_for(
            lambda: asyncio.run(_left(state.url)) == 0, seconds=30, what="the results to be written"
        )


def _quiet(state: State, postgres: Postgres, place: Path, turn: int, length: Length) -> None:
    """Post at a slow, steady pace: nothing is batched."""
    server = start_mailonce("quiet", place, state.url, more=state.more, root=state.root)
    try:
        first = turn * 1_000_000
        # The first second warms it up.
        _pace(server, first, 1)
        time.sleep(0.5)
        cpu_s, database_s = server.cpu_s(), postgres.cpu_s()
        sent = _pace(server, first + 500_000, length.quiet_s)
        wait_for(lambda: set(sent) <= set(_noted(state.endpoint)), what="every delivery")
        time.sleep(0.2)
        state.quiet_us.append((server.cpu_s() - cpu_s) / len(sent) * 1e6)
        state.quiet_database_us.append((postgres.cpu_s() - database_s) / len(sent) * 1e6)
        noted = _noted(state.endpoint)
        delays = sorted((noted[number] - at) * 1000 for number, at in sent.items())
        state.p50_ms.append(delays[len(delays) // 2])
        state.p99_ms.append(delays[int(len(delays) * 0.99)])
    finally:
        server.stop()


def _show(states: list[State]) -> bool:
    median = statistics.median
    drained: Lines = [
        ("worker's CPU per delivery, µs", lambda s: median(s.drain_us), "drain"),
        ("database's CPU per delivery, µs", lambda s: median(s.database_us), ""),
        ("drained by one worker, /s", lambda s: median(s.one_per_s), ""),
        ("drained by two workers, /s", lambda s: median(s.two_per_s), ""),
        ("two workers against one", lambda s: median(s.two_per_s) / median(s.one_per_s), ""),
        ("share of the lesser of two", lambda s: median(s.second_share), ""),
        ("cores idle while one drains", lambda s: median(s.one_idle), ""),
        ("cores idle while two drain", lambda s: median(s.two_idle), ""),
    ]
    quiet: Lines = [
        (f"server's CPU per event at {QUIET_RATE}/s, µs", lambda s: median(s.quiet_us), ""),
        ("database's CPU per event, µs", lambda s: median(s.quiet_database_us), ""),
        ("both", lambda s: median(_sums(s)), "cpu"),
        ("post to first byte, p50 ms", lambda s: median(s.p50_ms), "ms"),
        ("post to first byte, p99 ms", lambda s: median(s.p99_ms), "ms"),
    ]
    print(f"\n{'deliveries, medians of rounds':<40}" + "".join(f"{s.title:>10}" for s in states))
    kept = True
    for title, of, kind in [*(drained if states[0].drain_us else ()), *quiet]:
        values = [of(state) for state in states]
        row = f"{title:<40}" + "".join(f"{value:>10.2f}" for value in values)
        if len(values) == 2 and values[0]:
            ratio = values[1] / values[0]
            row += f"   {ratio:.2f} x"
            kept = kept and {
                "drain": ratio * DRAIN_MIN <= 1,
                "cpu": ratio <= QUIET_CPU_MAX,
                "ms": ratio <= QUIET_MS_MAX,
            }.get(kind, True)
        print(row)
    print(
        f"promised against the former state: {DRAIN_MIN} x the deliveries per CPU second, at most "
        f"{QUIET_CPU_MAX} x the CPU and {QUIET_MS_MAX} x the delay at {QUIET_RATE}/s\n"
        f"({psutil.cpu_count()} cores are shared by workers, database, endpoint and load)"
    )
    return kept


def _sums(state: State) -> list[float]:
    return [a + b for a, b in zip(state.quiet_us, state.quiet_database_us, strict=True)]


def _pace(server: Server, first: int, seconds: int) -> dict[int, float]:
    command = ["-m", "benchmarks.pace", server.port, server.path, first, QUIET_RATE, seconds]
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    return {int(number): at for number, at in json.loads(done.stdout).items()}


def _noted(port: int) -> dict[int, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
        return {int(number): at for number, at in json.load(answer).items()}


def _count(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/count", timeout=20) as answer:
        return int(json.load(answer))


async def _owe(url: str, mark: str, number: int, first: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(OWE, mark, number, ROUTES, first)
        await connection.execute("SELECT pg_notify('mailonce_owed', '*')")
    finally:
        await connection.close()


async def _left(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM deliveries WHERE state < 2"))
    finally:
        await connection.close()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
