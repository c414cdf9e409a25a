"""From a provider's post to the user's endpoint: how soon, how fast, with how many statements.

`python -m benchmarks deliveries` runs this part alone.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.blast import Order
from benchmarks.processes import ROOT, Blaster, Postgres, Server, start_mailonce, start_python
from tests.servers import free_port, start_postgres, wait_for

RATE = 1_000
P50_MS_MAX, P99_MS_MAX = 20.0, 200.0
STATEMENTS_MAX = 1.0
SATURATION_RATE_MAX = 20_000
DEBIAN = Path("/usr/lib/postgresql")
COUNTER = "pg_stat_statements"


@dataclass(frozen=True, slots=True)
class Length:
    """How long to measure."""

    steady_s: int
    saturated_s: float


FULL = Length(steady_s=60, saturated_s=5.0)
QUICK = Length(steady_s=8, saturated_s=2.0)


def run(stack: contextlib.ExitStack, place: Path, blaster: Blaster, length: Length) -> bool:
    """Measure and print; say whether every promise held."""
    binaries = counting_postgres()
    settings = {"shared_buffers": "256MB", "max_wal_size": "2GB"}
    if binaries is not None:
        settings["shared_preload_libraries"] = COUNTER
    postgres = Postgres(start_postgres(binaries, **settings))
    stack.callback(postgres.stop)
    url = postgres.url("postgres")
    port = free_port()
    endpoint = start_python(["-m", "benchmarks.endpoint", str(port)])
    stack.callback(endpoint.wait)
    stack.callback(endpoint.kill)
    server = start_mailonce(
        "deliveries",
        place,
        url,
        more=f'[routes.bench]\nurl = "http://127.0.0.1:{port}/"\nevents = ["*"]\n'
        'secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"\n'
        '[net]\nallow_hosts = ["127.0.0.1"]\n',
    )
    stack.callback(server.stop)
    print("\nfrom a provider's post to the endpoint, PostgreSQL, one route, one process")
    soon = steady(server, port, first=0, seconds=length.steady_s)
    few = saturated(server, port, url, blaster, length, counts=binaries is not None)
    return soon and few


def steady(server: Server, port: int, *, first: int, seconds: int) -> bool:
    """Post at a fixed rate and see how soon the endpoint hears of each event."""
    command = ["-m", "benchmarks.pace", server.port, server.path, first, RATE, seconds]
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    sent = {int(number): at for number, at in json.loads(done.stdout).items()}
    wait_for(lambda: len(heard(port)) >= len(sent), seconds=60, what="every delivery")
    noted = heard(port)
    delays = sorted((noted[number] - at) * 1000 for number, at in sent.items())
    p50, p99 = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
    print(
        f"{RATE:,} events/s for {seconds} s: post to first byte at the endpoint p50 {p50:.1f} ms, "
        f"p99 {p99:.1f} ms, slowest {delays[-1]:.0f} ms; {len(sent):,} of {RATE * seconds:,} taken "
        f"(promised from the commit on: {P50_MS_MAX:.0f} and {P99_MS_MAX:.0f} ms)"
    )
    return p50 < P50_MS_MAX and p99 < P99_MS_MAX and len(sent) == RATE * seconds


def saturated(
    server: Server, port: int, url: str, blaster: Blaster, length: Length, *, counts: bool
) -> bool:
    """Post as fast as the door takes it, wait for the last delivery, and count statements."""
    seconds = length.saturated_s
    before = len(heard(port))
    if counts:
        asyncio.run(_execute(url, f"CREATE EXTENSION IF NOT EXISTS {COUNTER}"))
        asyncio.run(_execute(url, f"SELECT {COUNTER}_reset()"))
    count = int(SATURATION_RATE_MAX * seconds)
    order = Order(
        port=server.port, path=server.path, seconds=seconds, first=10_000_000, count=count
    )
    blaster.prepare(order)
    started = time.monotonic()
    outcome = blaster.run()
    wait_for(lambda: len(heard(port)) - before >= outcome.ok, seconds=120, what="the backlog")
    took = time.monotonic() - started
    wait_for(lambda: _fetchval(url, "SELECT count(*) FROM deliveries WHERE state < 2") == 0,
             seconds=30, what="the last result to be written")  # fmt: skip
    print(
        f"saturated: {outcome.ok:,} events taken at {outcome.rate:,.0f}/s, all delivered after "
        f"{took:.1f} s, {outcome.ok / took:,.0f}/s from post to endpoint"
    )
    if not counts:
        return True
    calls = _fetchval(url, f"SELECT sum(calls) FROM {COUNTER} WHERE query NOT LIKE '%{COUNTER}%'")
    each = float(calls) / outcome.ok
    print(
        f"statements from receive to finished and logged delivery: {each:.3f} per event "
        f"({calls:,} for {outcome.ok:,}; at most {STATEMENTS_MAX:.0f} is promised)"
    )
    return each <= STATEMENTS_MAX


def counting_postgres() -> Path | None:
    """Find a PostgreSQL that can count statements: the wheel's comes without the module."""
    if not _debian() and os.geteuid() == 0:
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"],
            check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    found = _debian()
    if not found:
        print(f"statements are not counted: no PostgreSQL with {COUNTER} here (Debian's has it)")
    return found[-1] if found else None


def _debian() -> list[Path]:
    return sorted(
        version for version in DEBIAN.glob("*") if (version / f"lib/{COUNTER}.so").exists()
    )


def heard(port: int) -> dict[int, float]:
    """Ask the endpoint what it noted."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
        return {int(number): at for number, at in json.load(answer).items()}


def _fetchval(url: str, query: str) -> Any:
    async def ask() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(ask())


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()
