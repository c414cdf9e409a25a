"""A worker of our own in the test's process: real database, real HTTP, real endpoint."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest_asyncio
from sqlalchemy import select

from mailonce.clock import Clock
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.work.breaker import BreakerRule
from mailonce.core.work.job import Look
from mailonce.net.http import GuardedClient
from mailonce.pipeline.deliver import deliver
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.deliveries import Deliveries, Runner
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker
from mailonce.queue.worker_limits import WorkerLimits
from mailonce.store.configuration import routes
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES
from mailonce.telemetry import Metrics
from tests.endpoint import Endpoint
from tests.factories import SEALER, Ledger

LIMITS = WorkerLimits(
    lease_s=1.0,
    hold_s=1.0,
    drain_s=2.0,
    look_every_s=0.1,
    overdue_s=0.4,
    breaker=BreakerRule(failures=1_000, wait_s=0.3),
)
# A retry needs no patience in a test.
FAST: dict[str, Any] = {"waits_s": (0.05,) * 4, "timeout_s": 3.0}


@dataclass
class Works:
    """Everything that one process needs to deliver."""

    ledger: Ledger
    endpoint: Endpoint
    metrics: Metrics = field(default_factory=Metrics)
    workers: list[Worker] = field(default_factory=list)
    configurations: dict[Worker, ConfigurationCache] = field(default_factory=dict)
    closing: list[Callable[[], Any]] = field(default_factory=list)

    @property
    def database(self) -> Database:
        return self.ledger.database

    async def add_route(self, path: str = "/ok", **fields: Any) -> Route:
        given = {"id": "rte_" + path.strip("/"), "url": self.endpoint.url(path), **FAST, **fields}
        return await self.ledger.add_route(**given)

    async def start(self, client: GuardedClient | None = None, **changes: Any) -> Worker:
        """Start a worker as a process would, with the routes made so far and later."""
        clock = Clock()
        configuration = ConfigurationCache(
            self.database, clock, SEALER, self.metrics, poll_s=LIMITS.look_every_s
        )
        await configuration.reload()
        client = client or GuardedClient(allow_hosts=[self.endpoint.host])
        wakes = Wakes(self.database)
        runners = {RouteKind.WEBHOOK: Runner(partial(deliver, client, clock))}
        runners = changes.pop("runners", runners)
        deliveries = Deliveries(self.database, clock, configuration, runners)
        worker = Worker(
            self.database, clock, self.metrics.outgoing, [deliveries, *changes.pop("more", ())],
            wakes, replace(LIMITS, **changes),
        )  # fmt: skip
        configuration.start()
        wakes.start()
        worker.start()
        self.workers.append(worker)
        self.configurations[worker] = configuration
        self.closing += [worker.stop, wakes.stop, configuration.stop, client.close]
        return worker

    async def owe(self, number: int = 1) -> list[bytes]:
        """Owe events to all routes, and wake the workers as the recorder does."""
        keys = await self.ledger.owe(number)
        for worker in self.workers:
            worker.wake(list(self.ledger.routes))
        return keys

    async def look(self, times: int = 3) -> None:
        """Wait until somebody has looked so often what is due, whatever came of it."""
        leases, real, looks = self.database.deliveries, self.database.deliveries.look, 0

        async def look() -> Look:
            nonlocal looks
            looks += 1
            return await real()

        leases.look = look  # type: ignore[method-assign]
        try:
            # The last of them may not have acted yet on what it saw.
            await self.until(lambda: looks > times)
        finally:
            leases.look = real  # type: ignore[method-assign]

    async def rows(self, table: Any = DELIVERIES, **where: Any) -> list[dict[str, Any]]:
        query = select(table).where(*(table.c[name] == value for name, value in where.items()))
        rows = await self.database.read(lambda tx: tx.execute(query).mappings().all())
        return [dict(row) for row in rows]

    async def states(self, **where: Any) -> list[int]:
        return sorted(row["state"] for row in await self.rows(**where))

    async def attempts(self) -> list[dict[str, Any]]:
        return sorted(await self.rows(ATTEMPTS), key=lambda row: row["attempt"])

    async def letters(self) -> list[dict[str, Any]]:
        return await self.rows(DEAD_LETTERS)

    async def switch(self, route_id: str, off: str | None) -> None:
        now_ms = (await self.database.head()).now_ms
        await self.database.write(
            lambda tx: routes.switch(tx, route_id, off=off, now_ms=now_ms) and None
        )

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    async def until(self, check: Callable[[], Any], *, seconds: float = 60) -> None:
        """Wait for something true; the deadline turns a hang into a failure."""
        deadline = time.monotonic() + seconds
        while True:
            result = check()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            assert time.monotonic() < deadline, f"waited {seconds} s"
            await asyncio.sleep(0.01)

    async def until_ended(self, *, seconds: float = 60) -> None:
        """Wait until nothing is owed any more."""

        async def check() -> bool:
            return min(await self.states(), default=0) >= 2

        await self.until(check, seconds=seconds)


@pytest_asyncio.fixture
async def works(ledger: Ledger) -> AsyncIterator[Works]:
    endpoint = await Endpoint().start()
    made = Works(ledger, endpoint)
    try:
        yield made
    finally:
        for close in made.closing:
            await close()
        await endpoint.stop()
