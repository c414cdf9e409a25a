"""All that one process needs to send, in the test's own: real database, worker and ledger.

Only the providers are played: `Provider.answers` says what a call becomes.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Table, select

from mailonce.clock import Clock
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.sends.send_request import SendRequest
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Correlation,
    Frozen,
    HttpRequest,
    LookupOutcome,
    NotFound,
    SendFacts,
    Sending,
    SendOutcome,
    TryAgain,
)
from mailonce.core.work.breaker import BreakerRule
from mailonce.pipeline.record import Limits, Recorder
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker
from mailonce.queue.worker_limits import WorkerLimits
from mailonce.send.compose import Composer
from mailonce.send.database_time import DatabaseTime
from mailonce.send.drive_submissions import Submissions
from mailonce.send.flight_book import FlightBook
from mailonce.send.ledger_look import LedgerLook
from mailonce.send.pauses import PauseWatch
from mailonce.send.render import Renderer
from mailonce.send.sends import Sends, send_rule_of
from mailonce.send.step import MayBegin, SendParts
from mailonce.send.submit import SubmitRules, SubmittedSend, Submitter
from mailonce.store.configuration import senders
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.send_tables import SEND_ATTEMPTS, SENDS
from mailonce.telemetry import Metrics
from tests.factories import SEALER

LIMITS = WorkerLimits(
    lease_s=1.0, hold_s=1.0, drain_s=2.0, breaker=BreakerRule(failures=1_000, wait_s=0.3)
)
OK = Accepted(message_id="m-1", evidence="200")
UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What a provider needs of a sender, so that one file fits all.
CREDENTIALS: dict[str, dict[str, Any]] = {
    "smtp": {"host": "127.0.0.1", "tls": "none"},
    "ses": {"username": "AKIAEXAMPLE", "password": "secret", "region": "eu-west-1"},
}

Answer = SendOutcome | Awaitable[SendOutcome]


@dataclass
class Provider:
    """A provider that does what a test says, and remembers every call and what it was about."""

    answers: Callable[[int], Answer] = lambda _: OK
    lookups: Callable[[], LookupOutcome] = NotFound
    # The ids that calls carried, in their order, and by which sender each was made.
    calls: list[str] = field(default_factory=list)
    requests: list[Frozen] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    looked_up: int = 0

    async def transmit(
        self, request: Frozen, sender: Sender, sending: Sending, *, may_begin: MayBegin
    ) -> SendOutcome:
        del sending
        if not may_begin():
            return TryAgain(reason="paused")
        raw = request.body if isinstance(request, HttpRequest) else request.message
        match = UUID.search(raw)
        assert match is not None, "every call carries the id of its send"
        self.calls.append(match[0].decode())
        self.requests.append(request)
        self.by.append(sender.name)
        answer = self.answers(len(self.calls))
        return await answer if isinstance(answer, Awaitable) else answer

    async def look_up(
        self, correlation: Correlation, sender: Sender, sending: Sending, facts: SendFacts
    ) -> LookupOutcome | None:
        del correlation, sender, facts
        if sending.lookup is None:
            return None
        self.looked_up += 1
        return self.lookups()


class Office:
    """A process that submits and sends."""

    def __init__(self, database: Database, provider: Provider | None = None) -> None:
        self.database = database
        self.provider = provider or Provider()
        self.clock = Clock()
        self.pauses = PauseWatch(self.clock.uptime)
        self.metrics = Metrics()
        self.configuration = ConfigurationCache(database, self.clock, SEALER, self.metrics)
        self.wakes = Wakes(database)
        self.time = DatabaseTime(database, self.clock)
        self.book = FlightBook(database, self.clock, self.time)
        self.renderer = Renderer(limit_s=10.0)
        self.settle_s = 86_400.0
        self.links: Callable[[Any], str | None] = lambda _: None
        self.worker: Worker | None = None
        self.recorder = Recorder(
            database, self.clock, self.metrics, Limits(), owed=self.wakes.owed,
            routing=lambda: self.configuration.snapshot.routing, refresh=self.configuration.refresh,
        )  # fmt: skip

    async def open(self) -> "Office":
        self.recorder.start()
        await self.configuration.reload()
        self.configuration.start()
        self.wakes.start()
        return self

    async def close(self) -> None:
        await self.recorder.close()
        if self.worker is not None:
            await self.worker.stop()
        await self.book.close(timeout_s=5)
        await self.wakes.stop()
        await self.configuration.stop()
        await self.renderer.close()

    async def add_sender(self, name: str = "out", provider: str = "smtp", **changes: Any) -> Sender:
        given = {"secrets": ("key",)} | CREDENTIALS.get(provider, {})
        fast = {"waits_s": (0.05, 0.05, 0.05), "timeout_s": 5.0}
        sender = Sender(
            id=f"snr_{name}", workspace="default", name=name, provider=provider,
            **given | fast | changes,
        )  # fmt: skip
        now_ms = self.clock.now_ms()
        await self.database.write(
            lambda tx: senders.put(
                tx, sender, SEALER, origin="api", now_ms=now_ms, chance=self.clock.chance
            )
        )
        await self.configuration.reload()
        return sender

    def start(self, **changes: Any) -> Worker:
        parts = SendParts(
            clock=self.clock, pauses=self.pauses, book=self.book,
            caller=self.provider, rule_of=self._rule_of,
            link_of=lambda send: self.links(send),  # noqa: PLW0108 - a test may set it later
            wake=lambda sender: self.wakes.owed([sender]),
        )  # fmt: skip
        sends = Sends(self.database, self.configuration, parts)
        limits = replace(LIMITS, **changes)
        self.worker = Worker(
            self.database, self.clock, self.metrics.outgoing, [sends], self.wakes, limits
        )
        self.worker.start()
        return self.worker

    def _rule_of(self, sender: Sender) -> Any:
        found = self.configuration.snapshot.find_sender(sender.workspace, sender.next_sender or "-")
        return send_rule_of(sender, found, settle_s=self.settle_s)

    def submissions(self, **changes: Any) -> Submissions:
        rules = SubmitRules(**{"mail_bytes_max": 10 << 20} | changes)
        submitter = Submitter(
            self.database, self.clock, self.configuration, self.time, Composer(self.renderer), rules
        )
        return Submissions(submitter, self.recorder, LedgerLook(self.database))

    async def submit(self, request: SendRequest, **changes: Any) -> list[SubmittedSend]:
        return await self.submissions(**changes).submit("default", request, by="test")

    async def rows(self, table: Table = SENDS) -> list[dict[str, Any]]:
        query = select(table).order_by(*table.primary_key.columns)
        found = await self.database.read(lambda tx: tx.execute(query).mappings().all())
        return [dict(row) for row in found]

    async def states(self) -> list[str]:
        return [SendState(row["send_state"]).word for row in await self.rows()]

    async def steps(self) -> list[tuple[str | None, str | None]]:
        return [(row["step"], row["outcome"]) for row in await self.rows(SEND_ATTEMPTS)]

    async def until(self, *words: str) -> None:
        """Wait until every send is in one of these states."""

        async def check() -> bool:
            return {*await self.states()} <= {*words}

        await self.until_true(check)

    async def until_true(self, check: Callable[[], Any], *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            result = check()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            assert time.monotonic() < deadline, f"waited {seconds} s: {await self.rows()}"
            await asyncio.sleep(0.01)
