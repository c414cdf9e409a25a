"""Deliveries as a kind of work: a lane is a route, as the configuration has it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from mailonce.clock import Clock
from mailonce.core.deliveries.delivery import unroutable_reason
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.work import LaneSettings
from mailonce.store.configuration import routes
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.schema.work_table import DELIVERY_TABLE
from mailonce.telemetry import DELIVERY_DEAD, ROUTE_SWITCHED_OFF, log

FORGOTTEN = "its body is not kept any more"
ERASED = "its mail was deleted, and its body with it"


@dataclass(frozen=True, slots=True)
class Runner:
    """How deliveries of one kind of route are run.

    `run` gives the outcome of an attempt, or None where it ended the lease itself, in a
    transaction of its own. `takes` says which routes this process can run at all.
    """

    run: Callable[[Route, LeasedJob], Awaitable[AttemptOutcome | None]]
    takes: Callable[[Route], bool] = lambda _: True


class Deliveries:
    """Deliveries: events for routes."""

    table = DELIVERY_TABLE

    def __init__(
        self,
        database: Database,
        clock: Clock,
        configuration: ConfigurationCache,
        runners: Mapping[RouteKind, Runner],
    ) -> None:
        self._database = database
        self._clock = clock
        self._configuration = configuration
        self._runners = runners
        self.leases = database.deliveries
        # The lanes that were asked for since the configuration was read.
        self._lanes: dict[str, LaneSettings] = {}
        configuration.on_load.append(self._lanes.clear)

    def find(self, lane: str) -> LaneSettings | None:
        """Find a route that this process can run, with today's configuration."""
        settings = self._lanes.get(lane)
        if settings is None:
            route = self._configuration.snapshot.routes.get(lane)
            runner = None if route is None else self._runners.get(route.kind)
            if route is None or runner is None or route.is_unreadable or not runner.takes(route):
                return None
            settings = self._lanes[lane] = LaneSettings(route.workspace, route.rule, route)
        return settings

    def then(self, changed: Callable[[], None]) -> None:
        self._configuration.on_load.append(changed)

    async def run(self, lane: LaneSettings, job: LeasedJob) -> AttemptOutcome | None:
        """Hand a delivery to the runner of its route, if there is something to send."""
        if job.body is None:
            return AttemptOutcome(error=FORGOTTEN, dead_reason="gone")
        if not job.body:
            return AttemptOutcome(error=ERASED, dead_reason="gone")
        if (reason := unroutable_reason(job.body)) is not None:
            return AttemptOutcome(error=reason, dead_reason="unroutable")
        return await self._runners[lane.subject.kind].run(lane.subject, job)

    async def switch_off(self, lane: str, reason: str) -> None:
        now_ms = self._clock.now_ms()
        changed = await self._database.write(
            lambda tx: routes.switch(tx, lane, off=reason, now_ms=now_ms),
            priority=Priority.WORKER,
        )
        await self._configuration.refresh()
        if changed:
            log.warning(ROUTE_SWITCHED_OFF, route=lane, name=self._name_of(lane), reason=reason)

    def note_dead(self, lane: str, reason: str, *, key: bytes | None = None, many: int = 1) -> None:
        """Log what was given up."""
        which: dict[str, object] = {"deliveries": many} if key is None else {"delivery": key.hex()}
        log.warning(DELIVERY_DEAD, route=lane, name=self._name_of(lane), reason=reason, **which)

    def _name_of(self, lane: str) -> str | None:
        route = self._configuration.snapshot.routes.get(lane)
        return None if route is None else route.name
