"""Mail over SMTP, accepted durably: beside maildev, aiosmtpd without a store, and single commits.

`python -m benchmarks smtp` runs this part alone. 64 sessions send mails of 10 kB, each to an inbox
of its own and each different. Our door accepts alone: reading the mail is the worker's, which a
further line measures in the same process. After the last round the inboxes are counted: each mail
that was answered 250 has its number. `--quick` measures only what the promises compare.
"""

import asyncio
import contextlib
import statistics
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.blast import Order, Outcome
from benchmarks.processes import Blaster, Postgres, Server, start_mailonce
from benchmarks.smtp_peers import install_maildev, run_maildev, start_aiosmtpd
from mailonce.core.access import Caller, Scope
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.inbox_request import InboxRequest
from mailonce.log_lines import start_logging
from mailonce.manage.settings_file import apply_settings
from mailonce.service import Service
from mailonce.settings import read_settings
from mailonce.store.inboxes import inboxes
from mailonce.wiring import build_service
from tests.servers import free_port

CONNECTIONS = 64
RATE_MAX = 20_000
DOMAIN = "in.test"
MAILDEV_MIN, NOTHING_MIN, SINGLE_MIN = 3.0, 0.85, 1.3
ADMIN = Caller("default", Scope.ADMIN)


@dataclass(frozen=True, slots=True)
class Length:
    """How long to measure, how long maildev may take to install, and whether all is measured."""

    rounds: int
    round_s: float
    install_s: float
    is_whole: bool


FULL = Length(rounds=7, round_s=3.0, install_s=180, is_whole=True)
QUICK = Length(rounds=2, round_s=1.5, install_s=60, is_whole=False)


@dataclass(slots=True)
class Variant:
    """One line of the table, and what its rounds gave."""

    title: str
    server: Server
    port: int
    config: Path | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    sent: int = 0
    answered: int = 0

    def median(self, name: str) -> float:
        return float(statistics.median(getattr(one, name) for one in self.outcomes))

    def over(self, other: "Variant") -> float:
        """Give the median of the ratios of each round: what else runs slows both down."""
        pairs = zip(self.outcomes, other.outcomes, strict=True)
        return statistics.median(one.rate / two.rate for one, two in pairs)


def run(stack: contextlib.ExitStack, place: Path, length: Length) -> bool:
    """Measure and print; say whether every promise held."""
    blaster = Blaster("benchmarks.smtp_blast")
    stack.callback(blaster.stop)
    # Most of the time of a short run; it is done beside the others' start.
    installer = stack.enter_context(ThreadPoolExecutor(1))
    installed = installer.submit(install_maildev, place, limit_s=length.install_s)
    ours = partial(_start_ours, stack, place)
    durable = ours("mailonce, SQLite", "smtp sqlite")
    single = ours(
        "mailonce, SQLite, one commit each", "smtp single", "[limits]\nbatch_events_max = 1\n"
    )
    own = [durable, single]
    others: list[Variant] = []
    if length.is_whole:
        postgres = Postgres.start()
        stack.callback(postgres.stop)
        url = postgres.url("postgres")
        own.append(ours("mailonce, PostgreSQL", "smtp postgres", url=url))
        own.append(ours("mailonce, SQLite, reading them too", "smtp reading", role="all"))
        others.append(ours("mailonce, stores nothing", "smtp off", off=True))
    nothing = _peer(stack, start_aiosmtpd)
    others.append(nothing)
    _progress("waiting for maildev to be installed")
    folder = installed.result()
    if isinstance(folder, Path):
        others.append(_peer(stack, partial(run_maildev, folder)))
    variants = [*own, *others]
    _measure_all(variants, blaster, length)
    _show(variants)
    _progress("counting the mails in the inboxes")
    kept = [
        *(_check(variant) for variant in own),
        _promise("aiosmtpd that stores nothing", durable.over(nothing), NOTHING_MIN),
        _promise("one commit for each mail", durable.over(single), SINGLE_MIN),
    ]
    if isinstance(folder, str):
        print(f"maildev was not measured: {folder}")
    else:
        kept.append(_promise("maildev", durable.over(others[-1]), MAILDEV_MIN))
    return all(kept)


def _measure_all(variants: list[Variant], blaster: Blaster, length: Length) -> None:
    """Measure round by round, after a short one that counts for nothing."""
    for variant in variants:
        _measure(variant, blaster, seconds=0.5)
        variant.outcomes.clear()
        variant.cpu_us.clear()
    for number in range(1, length.rounds + 1):
        _progress(f"round {number} of {length.rounds}, {len(variants)} x {length.round_s:g} s")
        for variant in variants:
            _measure(variant, blaster, seconds=length.round_s)


def _progress(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)


def _peer(stack: contextlib.ExitStack, start: Callable[[], Server]) -> Variant:
    server = start()
    stack.callback(server.stop)
    return Variant(server.name, server, server.port)


def _start_ours(
    stack: contextlib.ExitStack,
    place: Path,
    title: str,
    name: str,
    more: str = "",
    *,
    url: str = "",
    role: str = "smtp",
    off: bool = False,
) -> Variant:
    _progress(f"starting {title}")
    port = free_port()
    settings = (
        f"[smtp]\nport = {port}\ncommands_max = 100000000\n"
        f'[inboxes]\ndomains = ["{DOMAIN}"]\nmails_max = 1000000\nbytes_max = 1000000000000\n{more}'
    )
    server = start_mailonce(
        name, place, url, more=settings, role=role, off=off, prepare=_make_inboxes
    )
    stack.callback(server.stop)
    return Variant(title, server, port, place / name.replace(" ", "-") / "mailonce.toml")


def _measure(variant: Variant, blaster: Blaster, *, seconds: float) -> None:
    order = Order(
        port=variant.port,
        path=DOMAIN,
        connections=CONNECTIONS,
        seconds=seconds,
        first=variant.sent,
        count=int(RATE_MAX * seconds),
    )
    blaster.prepare(order)
    cpu_s = variant.server.cpu_s()
    outcome = blaster.run()
    variant.cpu_us.append((variant.server.cpu_s() - cpu_s) / outcome.ok * 1e6)
    variant.sent += order.count
    variant.answered += outcome.ok
    variant.outcomes.append(outcome)


def _show(variants: list[Variant]) -> None:
    durable = variants[0]
    print(
        f"\n{'64 sessions, mails of 10 kB':<36}{'mails/s':>9}{'ours is':>10}"
        f"{'p50 ms':>8}{'p99 ms':>8}{'CPU µs/mail':>13}"
    )
    for variant in variants:
        p50, p99 = variant.median("p50_ms"), variant.median("p99_ms")
        print(
            f"{variant.title:<36}{variant.median('rate'):>9.0f}{durable.over(variant):>8.2f} x"
            f"{p50:>8.1f}{p99:>8.1f}{statistics.median(variant.cpu_us):>13.0f}"
        )


def _promise(peer: str, ratio: float, least: float) -> bool:
    print(f"durable SMTP / {peer} = {ratio:.2f}, at least {least} is promised")
    return ratio >= least


def _check(variant: Variant) -> bool:
    """Compare what was answered 250 with the numbers that the inboxes gave."""
    assert variant.config is not None, "only our own servers have inboxes"
    # SQLite has one process at a time.
    variant.server.stop()
    numbered = sum(one.seq for one in _with_service(variant.config, _read_inboxes))
    if numbered == variant.answered:
        return True
    print(f"{variant.title}: {variant.answered} mails were answered 250, {numbered} are numbered")
    return False


def _make_inboxes(config: Path) -> None:
    requests = [InboxRequest(local=f"box{number}") for number in range(CONNECTIONS)]

    async def make(service: Service) -> list[Inbox]:
        return (await service.manage.inboxes.make(ADMIN, requests)).inboxes

    _with_service(config, make)


async def _read_inboxes(service: Service) -> list[Inbox]:
    now_ms = service.clock.now_ms()
    return await service.database.read(
        lambda tx: inboxes.page(tx, "default", limit=CONNECTIONS, after=None, now_ms=now_ms)
    )


def _with_service(config: Path, do: Callable[[Service], Awaitable[list[Inbox]]]) -> list[Inbox]:
    start_logging(json=False, level="warning")

    async def work() -> list[Inbox]:
        settings = read_settings(config, roles=["door"])
        service = await build_service(settings)
        try:
            await apply_settings(service.manage, settings)
            return await do(service)
        finally:
            await service.stop()

    return asyncio.run(work())
