"""Service: the parts, started and stopped together; what every door calls."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from mailonce.clock import Clock
from mailonce.core.access import Caller
from mailonce.core.health.checkup import Finding, of_no_database, of_readiness
from mailonce.core.health.running_server import ServerIdentity
from mailonce.core.signatures.sealing import UNREADABLE, Sealer
from mailonce.errors import UnavailableError
from mailonce.inbox.expectations.expectation_service import ExpectationService
from mailonce.inbox.mail_parts import MailParts
from mailonce.manage.management import Management
from mailonce.manage.settings_file import ReloadReport
from mailonce.net.http import GuardedClient
from mailonce.net.keys import KeyRing
from mailonce.pipeline.dismiss_dead_letter import dismiss
from mailonce.pipeline.receive import Receiving
from mailonce.pipeline.record import Recorder
from mailonce.pipeline.refuse import Refusals
from mailonce.pipeline.retry_dead_letter import retry
from mailonce.queue.alarm import Alarms
from mailonce.queue.configuration import Configuration, ConfigurationCache
from mailonce.queue.maintain import Maintenance
from mailonce.queue.poll import Polls
from mailonce.queue.rerun import Reruns
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker
from mailonce.send.send_service import SendService
from mailonce.settings import Settings
from mailonce.store.dialects.contract import Database
from mailonce.store.readiness import Readiness
from mailonce.telemetry import STARTED, STOP_CUT_SHORT, STOPPED, Metrics, log
from mailonce.views.doctor import (
    examine,
    examine_open,
    examine_sources,
    examine_waiting_mail,
)
from mailonce.views.refusals import SourceVariables

# How long everything but attempts under way may take to stop.
STOP_S = 5.0


@dataclass(slots=True, kw_only=True)
class Service:
    """Everything that runs in one process."""

    database: Database
    clock: Clock
    metrics: Metrics
    sealer: Sealer
    client: GuardedClient
    key_ring: KeyRing
    recorder: Recorder
    refusals: Refusals
    configuration: ConfigurationCache
    manage: Management
    reruns: Reruns
    wakes: Wakes
    alarms: Alarms
    maintenance: Maintenance
    polls: Polls
    mail: MailParts
    expectations: ExpectationService
    sends: SendService
    ready: Readiness
    receiving: Receiving
    examine_mx: Callable[[], Awaitable[list[Finding]]]
    window_days: int
    body_bytes_max: int
    mail_bytes_max: int
    trusted_proxies: tuple[str, ...]
    # Where others reach this server; '' where nobody said so.
    public_url: str
    # Which database it is, as `doctor` compares it with that of a command.
    database_place: str
    stop_s: float = STOP_S
    # None where this process leaves deliveries to others.
    worker: Worker | None = None
    # What else goes by settings that change without a restart.
    on_settings: list[Callable[[Settings], None]] = field(default_factory=list)
    # Reads the settings again; None where they are read for one command alone.
    reload: Callable[[], Awaitable[ReloadReport]] | None = None
    # What variables give to its sources, as advice names them; None where it is no server's.
    source_variables: SourceVariables | None = None
    # What else is closed at the end.
    closing: list[Callable[[], Awaitable[None] | None]] = field(default_factory=list)

    async def start(self, *, maintains: bool = True) -> None:
        """Load the configuration and start the loops.

        `maintains` is for servers: a command prunes only when it is `mailonce prune`.
        """
        await self.configuration.reload()
        self.recorder.start()
        self.configuration.start()
        self.wakes.start()
        if self.worker is not None:
            self.worker.start()
        self.alarms.start()
        if maintains:
            await self.maintenance.keep()
            self.maintenance.start()
        self.reruns.start()
        self.polls.start()
        self.mail.readers.start()
        self.expectations.waiters.start()
        log.info(STARTED, database=self.database.name, sources=len(self.snapshot.sources))

    async def stop(self) -> None:
        """Finish what was accepted, store what was counted, and stop.

        All of it within `stop_s`: a database that does not answer cannot keep us from stopping, and
        what was not stored then was not acknowledged either.
        """
        try:
            async with asyncio.timeout(self.stop_s):
                await self._finish()
        except TimeoutError:
            log.warning(STOP_CUT_SHORT, seconds=self.stop_s)
        await self.database.close()
        log.info(STOPPED)

    def stop_waiting(self) -> None:
        """End long polls and other waits, because the process is about to stop."""
        self.polls.release()
        self.mail.readers.release()
        self.expectations.waiters.release()
        self.recorder.stop_retrying()

    async def _finish(self) -> None:
        await self.polls.stop()
        await self.mail.readers.stop()
        await self.expectations.waiters.stop()
        await self.alarms.stop()
        await self.recorder.close()
        if self.worker is not None:
            await self.worker.stop()
        await self.sends.close()
        await self.wakes.stop()
        await self.configuration.stop()
        await self.reruns.stop()
        await self.maintenance.stop()
        await self.key_ring.close()
        for close in self.closing:
            ending = close()
            if ending is not None:
                await ending
        await self.client.close()

    @property
    def snapshot(self) -> Configuration:
        """The sources and keys as last read."""
        return self.configuration.snapshot

    async def endpoints_down(self) -> dict[str, int]:
        """Give the routes and senders whose other side is taken to be down, and when it is asked.

        The worker that holds a lane knows; other workers have told it to the database.
        """
        try:
            held = await self.database.lanes.held_down()
        except UnavailableError:
            # Whoever asks for more than that is told so.
            held = {}
        worker, now_ms = self.worker, self.clock.now_ms()
        if worker is None:
            return {lane: at_ms for lane, at_ms in held.items() if at_ms}
        known = worker.endpoints_down()
        others = {lane: at_ms for lane, at_ms in held.items() if not worker.holds(lane)}
        own = {lane: now_ms + int(in_s * 1000) for lane, in_s in known.items()}
        return {lane: at_ms for lane, at_ms in (own | others).items() if at_ms}

    async def remove_route(self, caller: Caller, id_or_name: str) -> None:
        """Remove a route, and show what was pending as dead letters at once.

        Where that fails or there is very much of it, maintenance does the rest within seconds.
        Raises: MissingError.
        """
        route = await self.manage.routes.remove(caller, id_or_name)
        with suppress(UnavailableError):
            await self.maintenance.give_up_removed(route.id)

    async def retry_dead_letter(
        self, caller: Caller, dead_id: str, *, source: str | None = None
    ) -> bool:
        """Parse and record an arrival again, with today's code, or send a delivery again.

        `source`, an id or a name, stands in for a source that was removed. Says whether this did
        it: where somebody retried it before and that is pending, nothing is changed.
        """
        read_as = None if source is None else await self.manage.sources.find(caller, source)
        known, workspace = self.snapshot.sources, caller.workspace
        again = self.reruns.retry
        return await retry(self.receiving, known, again, workspace, dead_id, read_as=read_as)

    async def dismiss_dead_letter(self, caller: Caller, dead_id: str, *, reason: str) -> None:
        """Resolve a dead letter without trying it again; one that is resolved already stays so.

        Raises: MissingError where this workspace has none of that id.
        """
        await dismiss(self.database, self.clock, caller, dead_id, reason=reason)

    async def readiness(self) -> dict[str, object]:
        """Check that this process can do what the door does: commit a write, within a time limit.

        Raises: UnavailableError where it cannot.
        """
        if self.snapshot.opens_nothing:
            raise UnavailableError(UNREADABLE)
        await self.ready.check()
        return {
            "database": self.database.name,
            "configuration": self.snapshot.version,
            "queued": self.recorder.queued_events,
            "unreadable": len(self.snapshot.unreadable),
        }

    async def is_ready(self) -> bool:
        """Say whether `readiness` finds nothing wrong."""
        return await self._refusal() is None

    async def _refusal(self) -> str | None:
        """Give what `readiness` finds wrong."""
        try:
            await self.readiness()
        except UnavailableError as error:
            return str(error)
        return None

    @property
    def identity(self) -> ServerIdentity:
        """Which database this is, and with which master keys."""
        return ServerIdentity(database=self.database_place, master_keys=self.sealer.key_ids)

    async def examine(
        self, *, dns: bool = False, is_running: bool = True, sources_in_file: int = 0
    ) -> list[Finding]:
        """Check the installation, and what waits for a person; `dns`: MX records, too.

        `is_running` is for servers, which must be able to write and keep room for the days ahead; a
        command that is none may know of sources in a file that the next start brings into the
        database. A database that does not answer is a server's finding, and a command's error.
        """
        if not is_running:
            return await self._examine_database(
                dns=dns, is_running=False, sources_in_file=sources_in_file
            )
        refusal = await self._refusal()
        try:
            return [of_readiness(refusal), *await self._examine_database(dns=dns)]
        except UnavailableError as error:
            # What readiness said may be a second old.
            ready = of_readiness(refusal or str(error))
            return [ready, *of_no_database(self.database.name, str(error))]

    async def _examine_database(
        self, *, dns: bool, is_running: bool = True, sources_in_file: int = 0
    ) -> list[Finding]:
        findings = await examine(
            self.database,
            self.sealer,
            self.clock,
            window_days=self.window_days,
            is_running=is_running,
            sources_in_file=sources_in_file,
        )
        records = (("route", self.snapshot.routes), ("sender", self.snapshot.senders))
        down = [
            (noun, known[id_])
            for id_ in sorted(await self.endpoints_down())
            for noun, known in records
            if id_ in known
        ]
        alarms = self.alarms.standing()
        findings += await examine_sources(self.database, self.clock, alarms, self.source_variables)
        findings += await examine_waiting_mail(self.database)
        findings += await examine_open(self.database, down)
        if dns:
            findings += await self.examine_mx()
        return findings
