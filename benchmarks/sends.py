"""Mail that goes out: submitted durably, transmitted, and with how many statements.

`python -m benchmarks sends` runs this part alone. PostgreSQL, single mails, 64 clients:
- submit, beside an API written by hand with one transaction for each mail and the same checks, and
  one that does nothing but an INSERT for each;
- transmit, by one worker through a provider that answers after 50 ms, from the lease to the
  recorded outcome; the worker's CPU stands beside that of a bare aiohttp loop;
- both in one process under full load: SQL statements from the request to the recorded outcome.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.blast import Order, Outcome
from benchmarks.deliveries import COUNTER, counting_postgres
from benchmarks.processes import ROOT, Blaster, Postgres, Server, start_mailonce, start_python
from benchmarks.requests import ADMIN_KEY
from tests.servers import free_port, start_postgres, wait_for

SUBMIT_MIN = 8.0
TRANSMIT_MIN = 500
STATEMENTS_MAX = 0.5
RATE_MAX, HAND_RATE_MAX = 12_000, 3_000
CONNECTIONS = 64
BATCH = 1_000
UNSETTLED = "SELECT count(*) FROM sends WHERE done_ms IS NULL"


@dataclass(frozen=True, slots=True)
class Length:
    """How much to measure."""

    rounds: int
    round_s: float
    sends: int


FULL = Length(rounds=5, round_s=3.0, sends=10_000)
QUICK = Length(rounds=2, round_s=2.0, sends=3_000)


@dataclass(slots=True)
class SubmitVariant:
    """One API under load, and what its rounds gave."""

    title: str
    server: Server
    rate_max: int
    sent: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    database_us: list[float] = field(default_factory=list)


def run(stack: contextlib.ExitStack, place: Path, blaster: Blaster, length: Length) -> bool:
    """Measure and print; say whether every promise held."""
    binaries = counting_postgres()
    settings = {"shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "200"}
    if binaries is not None:
        settings["shared_preload_libraries"] = COUNTER
    postgres = Postgres(start_postgres(binaries, **settings))
    stack.callback(postgres.stop)
    for name in ("by_hand", "insert", "submit", "transmit", "all_steps"):
        _execute(postgres.url("postgres"), f"CREATE DATABASE {name}")
    provider = free_port()
    process = start_python(["-m", "benchmarks.send_peers", "provider", str(provider)])
    stack.callback(process.wait)
    stack.callback(process.kill)
    counts = binaries is not None
    kept = [
        _submit(stack, place, postgres, blaster, length, provider),
        _transmit(place, postgres, length, provider, counts=counts),
        _both(stack, place, postgres, blaster, length, provider, counts=counts),
    ]
    return all(kept)


def _submit(
    stack: contextlib.ExitStack,
    place: Path,
    postgres: Postgres,
    blaster: Blaster,
    length: Length,
    provider: int,
) -> bool:
    """Submit single mails to the door alone, and to the API written by hand."""
    hand = _start_hand("submit", postgres.url("by_hand"))
    stack.callback(hand.stop)
    insert = _start_hand("insert", postgres.url("insert"))
    stack.callback(insert.stop)
    ours = _start("sends door", place, postgres.url("submit"), provider, role="door")
    stack.callback(ours.stop)
    variants = [
        SubmitVariant("one transaction each, by hand", hand, HAND_RATE_MAX),
        SubmitVariant("one INSERT each, nothing checked", insert, HAND_RATE_MAX),
        SubmitVariant("mailonce", ours, RATE_MAX),
    ]
    for variant in variants:
        _measure(variant, postgres, blaster, seconds=0.5)
        for values in (variant.outcomes, variant.cpu_us, variant.database_us):
            values.clear()
    for _ in range(length.rounds):
        for variant in variants:
            _measure(variant, postgres, blaster, seconds=length.round_s)
    print(
        f"\n{'submitted durably, 64 clients':<36}{'mails/s':>9}{'p50 ms':>8}{'p99 ms':>8}"
        f"{'CPU µs/mail: server':>21}{'database':>9}"
    )
    for variant in variants:
        print(
            f"{variant.title:<36}{_median(variant.outcomes, 'rate'):>9.0f}"
            f"{_median(variant.outcomes, 'p50_ms'):>8.1f}"
            f"{_median(variant.outcomes, 'p99_ms'):>8.1f}"
            f"{statistics.median(variant.cpu_us):>21.0f}"
            f"{statistics.median(variant.database_us):>9.0f}"
        )
    ratio, least = (_times(variants[2], one) for one in variants[:2])
    print(
        f"submit / one transaction each = {ratio:.1f}, at least {SUBMIT_MIN:.0f} is promised "
        f"(by CPU {_cpu_us(variants[0]) / _cpu_us(variants[2]):.1f}); / one INSERT each = "
        f"{least:.1f} (by CPU {_cpu_us(variants[1]) / _cpu_us(variants[2]):.1f})"
    )
    return ratio >= SUBMIT_MIN


def _times(ours: SubmitVariant, other: SubmitVariant) -> float:
    pairs = zip(ours.outcomes, other.outcomes, strict=True)
    return statistics.median(one.rate / two.rate for one, two in pairs)


def _cpu_us(variant: SubmitVariant) -> float:
    """Give what a mail costs server and database together."""
    return statistics.median(variant.cpu_us) + statistics.median(variant.database_us)


def _measure(
    variant: SubmitVariant, postgres: Postgres, blaster: Blaster, *, seconds: float
) -> None:
    order = Order(
        port=variant.server.port,
        path="/v1/sends",
        kind="send",
        connections=CONNECTIONS,
        seconds=seconds,
        first=variant.sent,
        count=int(variant.rate_max * seconds),
    )
    blaster.prepare(order)
    server_s, database_s = variant.server.cpu_s(), postgres.cpu_s()
    outcome = blaster.run()
    server_s, database_s = variant.server.cpu_s() - server_s, postgres.cpu_s() - database_s
    assert outcome.other == 0, f"{variant.title}: {outcome.other} answers were no success"
    assert set(outcome.statuses) == {"pending"}, f"{variant.title}: {outcome.statuses}"
    variant.sent += order.count
    variant.outcomes.append(outcome)
    variant.cpu_us.append(server_s / outcome.ok * 1e6)
    variant.database_us.append(database_s / outcome.ok * 1e6)


def _transmit(
    place: Path, postgres: Postgres, length: Length, provider: int, *, counts: bool
) -> bool:
    """Let one worker send what waits."""
    url = postgres.url("transmit")
    door = _start("sends before", place, url, provider, role="door")
    try:
        for first in range(0, length.sends, BATCH):
            _post_list(door.port, first)
    finally:
        door.stop()
    before = _taken(provider)
    worker = _start("sends worker", place, url, provider, role="worker")
    try:
        wait_for(lambda: _taken(provider) - before >= 200, what="the first calls")
        if counts:
            _count_from_here(url)
        first, began_s, cpu_s = _taken(provider), time.monotonic(), worker.cpu_s()
        database_s = postgres.cpu_s()
        wait_for(lambda: _taken(provider) - before >= length.sends, seconds=180, what="all calls")
        took_s = time.monotonic() - began_s
        wait_for(lambda: _value(url, UNSETTLED) == 0, seconds=30, what="the last outcome")
        timed = before + length.sends - first
        cpu_us = (worker.cpu_s() - cpu_s) / timed * 1e6
        database_us = (postgres.cpu_s() - database_s) / timed * 1e6
    finally:
        worker.stop()
    rate = timed / took_s
    bare = _bare_loop(provider, length.sends)
    print(
        f"\ntransmitted by one worker, 64 calls at once of 50 ms: {rate:.0f}/s, at least "
        f"{TRANSMIT_MIN} is promised (a bare aiohttp loop: {bare['rate']:.0f}/s)\n"
        f"CPU µs per mail: worker {cpu_us:.0f}, database {database_us:.0f}; a bare aiohttp loop "
        f"{bare['cpu_us']:.0f}, which is {cpu_us / bare['cpu_us']:.1f} x"
    )
    if counts:
        _say_statements("transmit alone", url, timed)
    return rate >= TRANSMIT_MIN


def _both(
    stack: contextlib.ExitStack,
    place: Path,
    postgres: Postgres,
    blaster: Blaster,
    length: Length,
    provider: int,
    *,
    counts: bool,
) -> bool:
    """Submit as fast as one process takes it, and wait until all of it is sent."""
    url = postgres.url("all_steps")
    server = _start("sends both", place, url, provider, role="all")
    stack.callback(server.stop)
    if counts:
        _count_from_here(url)
    seconds = length.round_s
    order = Order(
        port=server.port,
        path="/v1/sends",
        kind="send",
        connections=CONNECTIONS,
        seconds=seconds,
        count=int(RATE_MAX * seconds),
    )
    blaster.prepare(order)
    began_s = time.monotonic()
    outcome = blaster.run()
    wait_for(lambda: _value(url, UNSETTLED) == 0, seconds=180, what="the backlog")
    took_s = time.monotonic() - began_s
    print(
        f"\nsubmitted and sent by one process: {outcome.ok:,} taken at {outcome.rate:,.0f}/s, all "
        f"accepted after {took_s:.1f} s, {outcome.ok / took_s:,.0f}/s"
    )
    if not counts:
        return True
    return _say_statements("from the request to the outcome", url, outcome.ok) <= STATEMENTS_MAX


def _say_statements(title: str, url: str, sends: int) -> float:
    ours = f"query NOT LIKE '%{COUNTER}%' AND query NOT LIKE 'SELECT count(*) FROM sends%'"
    calls = _value(url, f"SELECT sum(calls) FROM {COUNTER} WHERE {ours}")
    each = float(calls) / sends
    print(
        f"statements, {title}: {each:.3f} per mail ({calls:,} for {sends:,}; "
        f"at most {STATEMENTS_MAX} is promised)"
    )
    return each


def _start(name: str, place: Path, url: str, provider: int, *, role: str) -> Server:
    more = (
        '[senders.out]\nprovider = "postmark"\nsecret = "key"\n'
        f'endpoint = "http://127.0.0.1:{provider}"\nconcurrency = {CONNECTIONS}\n'
    )
    return start_mailonce(name, place, url, more=more, role=role, admin_key=ADMIN_KEY)


def _start_hand(what: str, url: str) -> Server:
    port = free_port()
    variables = {"DATABASE_URL": url.replace("postgresql://", "postgresql+asyncpg://")}
    process = start_python(["-m", "benchmarks.send_peers", what, str(port)], variables)
    server = Server(f"by hand: {what}", process, port, "/v1/sends")
    wait_for(lambda: _answers(port), seconds=60, what="the API written by hand")
    return server


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/docs", timeout=2):
            return True
    except OSError:
        return False


def _post_list(port: int, first: int) -> None:
    people = [f"customer-{number}@example.net" for number in range(first, first + BATCH)]
    mail = {"to": people, "from": "shop@example.com", "subject": "Your receipt"}
    body = json.dumps({**mail, "text": "Thank you for your order. " * 20}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/sends", data=body)
    request.add_header("Authorization", f"Bearer {ADMIN_KEY}")
    request.add_header("Idempotency-Key", f"list-{first}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60):
        pass


def _taken(provider: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{provider}/count", timeout=20) as answer:
        return int(json.load(answer))


def _bare_loop(provider: int, count: int) -> dict[str, float]:
    command = ["-m", "benchmarks.send_peers", "loop", str(provider), str(count)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _median(outcomes: Sequence[Outcome], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in outcomes))


def _count_from_here(url: str) -> None:
    _execute(url, f"CREATE EXTENSION IF NOT EXISTS {COUNTER}")
    _execute(url, f"SELECT {COUNTER}_reset()")


def _execute(url: str, statement: str) -> None:
    asyncio.run(_ask(url, statement))


def _value(url: str, query: str) -> Any:
    return asyncio.run(_ask(url, query))


async def _ask(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()
