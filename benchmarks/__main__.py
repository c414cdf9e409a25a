"""`python -m benchmarks [PART …] [--quick]`; `--help` names the parts.

Exit 1 on a missed promise. `--only` measures the gate on one store. `--former` names the checkout
of a former state, with its own environment: receiving and deliveries are then measured in rounds
that alternate with the former state's, and `--beside` measures nothing else.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import asyncpg

from benchmarks import (
    agents,
    deliveries,
    delivery_states,
    digest,
    gate,
    inboxes,
    receive_states,
    sends,
    smtp,
)
from benchmarks.blast import Order
from benchmarks.processes import (
    Blaster,
    Postgres,
    Server,
    folder,
    fsync_us,
    start_bare,
    start_mailonce,
    start_seed001,
)
from benchmarks.requests import ARRAY_EVENTS
from benchmarks.variant import ARRAY_CONNECTIONS, ARRAY_RATE_MAX, RATE_MAX, Variant, measure

Run = Callable[[contextlib.ExitStack, Path, Blaster, bool], bool]

RATIO_MIN = 12.0
SEED_RATE_MAX = 3_000


@dataclass(frozen=True, slots=True)
class Length:
    """How long to measure."""

    rounds: int
    round_s: float
    idle_rounds: int
    idle_s: float
    kill_s: float
    # Commits are counted only where there is time to wait for the backends' counts.
    counts: bool


FULL = Length(rounds=5, round_s=3.0, idle_rounds=3, idle_s=2.0, kill_s=6.0, counts=True)
QUICK = Length(rounds=1, round_s=2.0, idle_rounds=1, idle_s=1.0, kill_s=4.0, counts=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a smoke test of a minute")
    parser.add_argument(
        "--former", type=Path, metavar="CHECKOUT", help="a former state to measure beside this one"
    )
    parser.add_argument(
        "--beside", action="store_true", help="measure nothing but this state beside the former one"
    )
    parser.add_argument("--only", choices=tuple(gate.STORES), help="the gate on one store")
    parser.add_argument(
        "--quiet", action="store_true", help="of deliveries, measure the slow and steady pace only"
    )
    asked = parser.parse_args()
    strange = set(asked.parts) - set(PARTS)
    if strange:
        parser.error(f"there is no part {strange.pop()!r}; use {', '.join(PARTS)}")
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(folder())
        print(
            f"{os.cpu_count()} cores, load of others {os.getloadavg()[0]:.1f}; "
            f"fsync of 8 kB in {place.parent}: {fsync_us(place):.0f} µs (median)"
        )
        blaster = Blaster()
        stack.callback(blaster.stop)
        kept = []
        for part in asked.parts or PARTS:
            for run in _runs(part, asked):
                # What one run started is stopped before the next is measured.
                with contextlib.ExitStack() as started:
                    kept.append(run(started, place, blaster, asked.quick))
    sys.exit(0 if all(kept) else 1)


def _runs(part: str, options: argparse.Namespace) -> list[Run]:
    """List what is measured of a part, one after the other."""
    runs: list[Run] = []
    if part == "gate":
        return [partial(guard, only=options.only)]
    if not options.beside and not (part == "deliveries" and options.quiet):
        runs.append(PARTS[part])
    if part == "deliveries":
        runs.append(partial(deliver_beside, former=options.former, drains=not options.quiet))
    elif options.former and part == "receive":
        runs.append(partial(receive_beside, former=options.former))
    return runs


def receive(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    length = QUICK if quick else FULL
    postgres = Postgres.start()
    stack.callback(postgres.stop)
    for name in ("seed001", "ours", "arrays", "bare"):
        asyncio.run(_execute(postgres.url("postgres"), f"CREATE DATABASE {name}"))
    started = [
        start_seed001(postgres.url("seed001")),
        start_mailonce("ours", place, postgres.url("ours")),
        start_mailonce("storage off", place, off=True),
        start_mailonce("sqlite", place),
        start_mailonce("arrays", place, postgres.url("arrays")),
        start_bare(postgres.url("bare")),
    ]
    for server in started:
        stack.callback(server.stop)
    seed, ours, off, sqlite, arrays, bare = started
    variants = [
        Variant(seed, "seed 001, PostgreSQL", rate_max=SEED_RATE_MAX, database="seed001"),
        Variant(ours, "mailonce, PostgreSQL", database="ours"),
        Variant(off, "mailonce, storage off"),
        Variant(sqlite, "mailonce, SQLite"),
        Variant(
            arrays,
            "mailonce, PostgreSQL, arrays of 500",
            kind="array",
            events=ARRAY_EVENTS,
            connections=ARRAY_CONNECTIONS,
            rate_max=ARRAY_RATE_MAX,
            database="arrays",
            path="/in/sg",
        ),
    ]
    for variant in variants:
        measure(variant, postgres, blaster, seconds=0.5)
        variant.clear()
    if length.counts:
        count_commits(variants, postgres)
    for number in range(length.rounds):
        print(f"round {number + 1} of {length.rounds} …", flush=True)
        for variant in variants:
            measure(variant, postgres, blaster, seconds=length.round_s)
    if length.counts:
        count_commits(variants, postgres)
    idle = [
        Variant(bare, "one bare INSERT"),
        Variant(ours, "mailonce, PostgreSQL"),
        Variant(sqlite, "mailonce, SQLite"),
        Variant(seed, "seed 001, PostgreSQL"),
    ]
    for _ in range(length.idle_rounds):
        for variant in idle:
            variant.sent = variant.sent or 50_000_000
            variant.connections, variant.rate_max = 1, 5_000
            measure(variant, postgres, blaster, seconds=length.idle_s)
    show(variants)
    show_idle(idle)
    survived = kill(ours, postgres, blaster, seconds=length.kill_s)
    ratio = variants[1].rate / variants[0].rate
    print(f"\nours / seed 001 = {ratio:.1f}, at least {RATIO_MIN:.0f} is promised")
    return survived and ratio >= RATIO_MIN


def deliver(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    return deliveries.run(stack, place, blaster, deliveries.QUICK if quick else deliveries.FULL)


def receive_beside(
    stack: contextlib.ExitStack,
    place: Path,
    blaster: Blaster,
    quick: bool,  # noqa: FBT001
    *,
    former: Path,
) -> bool:
    length = receive_states.QUICK if quick else receive_states.FULL
    return receive_states.run(stack, place, blaster, length, former)


def deliver_beside(
    stack: contextlib.ExitStack,
    place: Path,
    blaster: Blaster,
    quick: bool,  # noqa: FBT001
    *,
    former: Path | None,
    drains: bool,
) -> bool:
    del blaster
    length = delivery_states.QUICK if quick else delivery_states.FULL
    return delivery_states.run(stack, place, length, former, drains=drains)


def guard(
    stack: contextlib.ExitStack,
    place: Path,
    blaster: Blaster,
    quick: bool,  # noqa: FBT001
    *,
    only: str | None = None,
) -> bool:
    del place
    postgres = Postgres.start()
    stack.callback(postgres.stop)
    rounds, seconds = (2, 1.0) if quick else (7, 2.0)
    return not gate.run(postgres, blaster, rounds=rounds, seconds=seconds, only=only)


def accept(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    del blaster
    return smtp.run(stack, place, smtp.QUICK if quick else smtp.FULL)


def send(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    return sends.run(stack, place, blaster, sends.QUICK if quick else sends.FULL)


def wait_for_mail(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    del blaster
    return inboxes.run(stack, place, quick=quick)


def wait_for_codes(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    del blaster
    return agents.run(stack, place, quick=quick)


def read_mail(stack: contextlib.ExitStack, place: Path, blaster: Blaster, quick: bool) -> bool:  # noqa: FBT001
    del stack, place, blaster
    return digest.run(rounds=1 if quick else 5, round_s=0.05 if quick else 0.15)


PARTS = {
    "receive": receive,
    "deliveries": deliver,
    "gate": guard,
    "smtp": accept,
    "digest": read_mail,
    "inboxes": wait_for_mail,
    "agents": wait_for_codes,
    "sends": send,
}


def count_commits(variants: list[Variant], postgres: Postgres) -> None:
    """Leave in each variant the transactions of its database since the last time."""
    # An idle backend hands in its counts after ten seconds.
    time.sleep(10.5)
    query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1"
    for variant in variants:
        if variant.database:
            total = asyncio.run(_fetchval(postgres.url("postgres"), query, variant.database))
            variant.commits = total - variant.commits


def kill(ours: Server, postgres: Postgres, blaster: Blaster, *, seconds: float) -> bool:
    """Kill the database under load, start it again, and look for what was acknowledged.

    Then everything is sent a second time, as a provider would send what it got no 2xx for: each
    event must stand once, and those acknowledged before must be known as copies.
    """
    first = 90_000_000
    order = Order(
        port=ours.port, path=ours.path, seconds=seconds, first=first, count=int(RATE_MAX * seconds)
    )
    # Recovery then reads the log of this load only.
    asyncio.run(_execute(postgres.url("postgres"), "CHECKPOINT"))
    command = postgres.command()
    blaster.prepare(order)
    blaster.begin()
    time.sleep(seconds / 4)
    postgres.kill()
    postgres.start_again(command)
    outcome = blaster.finish()
    stored = asyncio.run(_times_stored(postgres.url("ours"), first))
    lost = sum(1 for number in outcome.answered if number not in stored)
    blaster.prepare(replace(order, seconds=60, count=outcome.ok + outcome.other))
    again = blaster.run()
    copies = again.statuses.get("duplicate", 0)
    stored = asyncio.run(_times_stored(postgres.url("ours"), first))
    doubled = sum(1 for times in stored.values() if times != 1)
    missing = sum(1 for number in again.answered if number not in stored)
    print(
        f"\nkill -9 of PostgreSQL under load: {outcome.ok} events acknowledged, {outcome.other} "
        f"told to come again; lost {lost}\nall {again.ok} sent again: {copies} known as copies, "
        f"doubled {doubled}, missing {missing}"
    )
    harmed = outcome.other > 0 and again.other == 0
    return harmed and lost == doubled == missing == 0 and copies >= outcome.ok


def show(variants: list[Variant]) -> None:
    seed, off = variants[0], variants[2]
    print(
        f"\n{'variant':<36}{'events/s':>9}{'x seed':>8}{'% of off':>9}{'p50 ms':>8}{'p99 ms':>8}"
        f"{'CPU µs/event: door':>20}{'database':>9}{'commits/event':>15}"
    )
    for variant in variants:
        single = variant.kind == "single"
        share = f"{variant.rate / off.rate:.0%}" if single else ""
        database = f"{statistics.median(variant.database_us):.0f}" if variant.database else ""
        events = sum(outcome.ok for outcome in variant.outcomes) * variant.events
        commits = f"{variant.commits / events:.3f}" if variant.commits else ""
        print(
            f"{variant.title:<36}{variant.rate:>9.0f}{variant.rate / seed.rate:>8.1f}{share:>9}"
            f"{variant.median(lambda o: o.p50_ms):>8.1f}{variant.median(lambda o: o.p99_ms):>8.1f}"
            f"{statistics.median(variant.server_us):>20.0f}{database:>9}{commits:>15}"
        )


def show_idle(idle: list[Variant]) -> None:
    bare = idle[0]
    print(f"\n{'idle, one client':<36}{'p50 ms':>8}{'p99 ms':>8}{'x bare p50':>12}{'p99':>8}")
    for variant in idle:
        p50, p99 = variant.median(lambda o: o.p50_ms), variant.median(lambda o: o.p99_ms)
        bare50, bare99 = bare.median(lambda o: o.p50_ms), bare.median(lambda o: o.p99_ms)
        print(f"{variant.title:<36}{p50:>8.2f}{p99:>8.2f}{p50 / bare50:>12.1f}{p99 / bare99:>8.1f}")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _fetchval(url: str, query: str, *arguments: object) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(query, *arguments))
    finally:
        await connection.close()


async def _connect_patiently(url: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect to a database that may be recovering."""
    for _ in range(600):
        try:
            return await asyncpg.connect(url)
        except (OSError, asyncpg.CannotConnectNowError):
            await asyncio.sleep(0.1)
    raise TimeoutError("PostgreSQL did not recover within a minute")


async def _times_stored(url: str, first: int) -> dict[int, int]:
    """Count, by the number in its recipient, how often each event took effect."""
    connection = await _connect_patiently(url)
    query = """
        SELECT e.recipient, greatest(count(*), max(f.count)) FROM events e
        JOIN facts f USING (workspace, message_id, recipient, account)
        WHERE e.message_id >= $1 GROUP BY 1
    """
    try:
        rows = await connection.fetch(query, f"<{first:012d}")
    finally:
        await connection.close()
    return {int(recipient[9:].partition("@")[0]): int(times) for recipient, times in rows}


if __name__ == "__main__":
    main()
