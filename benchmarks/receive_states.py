"""Receiving by this state beside a former one, in alternating rounds: ratios, not speeds.

`python -m benchmarks receive --former CHECKOUT` runs this part. Rounds are short and many, and each
is compared with the other state's round beside it, so that a machine whose speed wanders disturbs
both alike. CPU time is that of the processes themselves (user and system).
"""

import asyncio
import contextlib
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.processes import ROOT, Blaster, Postgres, start_mailonce
from benchmarks.requests import ARRAY_EVENTS
from benchmarks.variant import ARRAY_CONNECTIONS, ARRAY_RATE_MAX, Variant, measure

# What is promised of this state against the former one, in events per CPU second.
OF_FORMER_MIN = 0.97
RATE_MAX = 14_000
KINDS = ("PostgreSQL", "SQLite", "arrays")


@dataclass(frozen=True, slots=True)
class Length:
    """How long to measure."""

    rounds: int
    round_s: float


FULL = Length(rounds=15, round_s=1.5)
QUICK = Length(rounds=3, round_s=1.0)


def run(
    stack: contextlib.ExitStack, place: Path, blaster: Blaster, length: Length, former: Path
) -> bool:
    """Measure and print; say whether the promise held."""
    return compare(stack, place, blaster, length, {"former": former.resolve(), "this": ROOT})


def compare(
    stack: contextlib.ExitStack,
    place: Path,
    blaster: Blaster,
    length: Length,
    roots: Mapping[str, Path],
) -> bool:
    """Compare the last of `roots` with each of those before it."""
    postgres = Postgres.start()
    stack.callback(postgres.stop)
    states = {title: _start(stack, place, postgres, title, root) for title, root in roots.items()}
    for kind in KINDS:
        for variants in states.values():
            measure(variants[kind], postgres, blaster, seconds=1.0)
            variants[kind].clear()
    for number in range(length.rounds):
        print(f"receive beside, round {number + 1} of {length.rounds} …", flush=True)
        for kind in KINDS:
            # What comes later finds the machine otherwise: so the order turns round.
            for title in list(roots)[:: 1 if number % 2 else -1]:
                measure(states[title][kind], postgres, blaster, seconds=length.round_s)
    return _show(states)


def _start(
    stack: contextlib.ExitStack, place: Path, postgres: Postgres, title: str, root: Path
) -> dict[str, Variant]:
    here = place / f"receive-{title}"
    here.mkdir()
    variants = {}
    for kind in KINDS:
        name = f"{title}_{kind.lower()}".replace("-", "_")
        url = ""
        if kind != "SQLite":
            asyncio.run(_create(postgres.url("postgres"), name))
            url = postgres.url(name)
        server = start_mailonce(name, here, url, root=root)
        stack.callback(server.stop)
        variants[kind] = Variant(server, title, rate_max=RATE_MAX, database=name if url else "")
    arrays = variants["arrays"]
    arrays.kind, arrays.path, arrays.events = "array", "/in/sg", ARRAY_EVENTS
    arrays.connections, arrays.rate_max = ARRAY_CONNECTIONS, ARRAY_RATE_MAX
    return variants


def _show(states: Mapping[str, Mapping[str, Variant]]) -> bool:
    *formers, this = states
    kept = True
    print(
        f"\n{'receive, medians of rounds':<28}{'events/s':>10}{'CPU µs: door':>14}{'database':>10}"
        f"{'of the rate':>13}{'events per CPU second':>23}"
    )
    for kind in KINDS:
        ours = states[this][kind]
        for title in [this, *formers]:
            theirs = states[title][kind]
            print(
                f"{kind + ', ' + title:<28}{theirs.rate:>10.0f}"
                f"{statistics.median(theirs.server_us):>14.1f}"
                f"{statistics.median(theirs.database_us):>10.1f}",
                end="",
            )
            if title == this:
                print()
                continue
            pairs = zip(ours.outcomes, theirs.outcomes, strict=True)
            rate = statistics.median(mine.rate / former.rate for mine, former in pairs)
            costs = list(zip(ours.cpu_us, theirs.cpu_us, strict=True))
            # The sums say what the medians of noisy rounds may hide, and the other way round.
            median = statistics.median(former / mine for mine, former in costs)
            mean = sum(former for _, former in costs) / sum(mine for mine, _ in costs)
            print(f"{rate:>12.2f}x{median:>13.2f}x (means {mean:.2f}x)")
            kept = kept and max(median, mean) >= OF_FORMER_MIN
    print(f"promised: at least {OF_FORMER_MIN} x the former state's events per CPU second")
    return kept


async def _create(url: str, database: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'CREATE DATABASE "{database}"')
    finally:
        await connection.close()
