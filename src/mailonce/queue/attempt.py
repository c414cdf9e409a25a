"""Make one attempt: run it, judge what it met, and hand its end to the finisher."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from mailonce.clock import Clock
from mailonce.core import retry
from mailonce.core.delivery import unroutable_reason
from mailonce.core.job import ERROR_CHARS_MAX, End, Finish, Leased, Outcome
from mailonce.core.route import Route, RouteKind
from mailonce.core.text import storable
from mailonce.errors import MailonceError
from mailonce.queue.finish import Finisher
from mailonce.queue.lane import RouteLane
from mailonce.telemetry import (
    BREAKER_CLOSED,
    BREAKER_OPENED,
    DELIVERY_DEAD,
    UNEXPECTED,
    WORKER_STALLED,
    OutgoingMetrics,
    log,
)

GONE = "the endpoint answered 410 Gone"


@dataclass(frozen=True, slots=True)
class Runner:
    """How jobs of one kind of route are run.

    `run` gives the outcome of an attempt, which is then judged and written down, or None where it
    ended the lease itself, in a transaction of its own. `takes` says which routes this process
    can run at all.
    """

    run: Callable[[Route, Leased], Awaitable[Outcome | None]]
    takes: Callable[[Route], bool] = lambda _: True


class Attempts:
    """Makes attempts; `ended` is told when one is over, `written` when that is known."""

    def __init__(
        self,
        clock: Clock,
        metrics: OutgoingMetrics,
        runners: Mapping[RouteKind, Runner],
        finisher: Finisher,
        *,
        switch_off: Callable[[RouteLane, str], Awaitable[None]],
        ended: Callable[[RouteLane], None],
        written: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._runners = runners
        self._finisher = finisher
        self._switch_off = switch_off
        self._ended = ended
        self._written = written

    async def make(self, lane: RouteLane, job: Leased, *, until_s: float) -> None:
        """Run a job that was leased until `until_s`."""
        began_s = self._clock.monotonic()
        route = lane.route
        if route.off is not None:
            self._give_back(lane, job, until_s=until_s)
            return
        outcome: Outcome | None = None
        verdict: retry.Verdict = retry.RetryIn(0)
        try:
            if job.body is None:
                outcome, verdict = Outcome(error="its body is not kept any more"), _NOTHING_TO_SEND
                lane.breaker.abandoned()
            elif (reason := unroutable_reason(job.body)) is not None:
                outcome, verdict = Outcome(error=reason), _UNROUTABLE
                lane.breaker.abandoned()
            else:
                outcome = await self._run(route, job)
                self._note_health(lane, outcome)
                if outcome is not None:
                    verdict = self._judge(route, job, outcome, began_s)
                if isinstance(verdict, retry.SwitchOff):
                    await self._switch_off_surely(lane)
        except asyncio.CancelledError:
            lane.breaker.abandoned()
            outcome = outcome or Outcome(error="the worker stopped before an answer came")
        self._ended(lane)
        if outcome is None:
            self._count(route, "own")
            self._written()
        else:
            self._finish(lane, job, outcome, verdict, began_s=began_s, until_s=until_s)

    def _give_back(self, lane: RouteLane, job: Leased, *, until_s: float) -> None:
        """End the lease of a job whose route was switched off while it was leased."""
        lane.breaker.abandoned()
        self._ended(lane)
        finish = Finish(key=job.key, token=job.token, attempt=job.attempt, end=End.UNTRIED)
        self._finisher.put(finish, until_s=until_s, done=self._written)

    async def _run(self, route: Route, job: Leased) -> Outcome | None:
        try:
            return await self._runners[route.kind].run(route, job)
        except Exception as error:  # noqa: BLE001 - an outermost loop: one bad job is not the end
            log.error(UNEXPECTED, where="attempt", error=type(error).__name__, exc_info=error)
            return Outcome(error=f"unexpected {type(error).__name__}")

    def _judge(self, route: Route, job: Leased, outcome: Outcome, began_s: float) -> retry.Verdict:
        if retry.is_done(outcome):
            return retry.Done()
        left_ms = job.left_ms - self._ms_since(began_s)
        dice = int.from_bytes(self._clock.chance(2), "big") / 65_535
        return retry.judge(outcome, route, step=job.step, left_ms=left_ms, dice=dice)

    def _finish(
        self,
        lane: RouteLane,
        job: Leased,
        outcome: Outcome,
        verdict: retry.Verdict,
        *,
        began_s: float,
        until_s: float,
    ) -> None:
        end, wait_ms, reason, letter = End.DONE, 0, "", b""
        match verdict:
            case retry.RetryIn(wait_ms=wait_ms) | retry.SwitchOff(wait_ms=wait_ms):
                end = End.RETRY
            case retry.GiveUp(reason=reason):
                end, letter = End.DEAD, self._clock.new_id()
                log.warning(DELIVERY_DEAD, route=job.route, delivery=job.key.hex(), reason=reason)
            case retry.Done():
                pass
        took_ms = self._ms_since(began_s)
        self._count(lane.route, end.name.lower())
        self._metrics.attempt_seconds.observe(took_ms / 1000)
        finish = Finish(
            key=job.key,
            token=job.token,
            attempt=job.attempt,
            end=end,
            began_ms=took_ms,
            latency_ms=took_ms,
            wait_ms=wait_ms,
            status=outcome.status,
            error=_storable(outcome.error),
            answer=outcome.answer or None,
            letter=letter,
            reason=reason,
        )

        def written() -> None:
            if end is End.RETRY:
                lane.due_in(wait_ms / 1000, now_s=self._clock.monotonic())
            self._written()

        self._finisher.put(finish, until_s=until_s, done=written)

    def _note_health(self, lane: RouteLane, outcome: Outcome | None) -> None:
        route = lane.route.id
        if outcome is None or retry.is_well(outcome):
            if lane.breaker.succeeded():
                self._metrics.breaker_open.labels(route).set(0)
                log.info(BREAKER_CLOSED, route=route)
        elif lane.breaker.failed(self._clock.monotonic()):
            self._metrics.breaker_open.labels(route).set(1)
            log.warning(BREAKER_OPENED, route=route)

    async def _switch_off_surely(self, lane: RouteLane) -> None:
        """Switch off before the delivery is due again; should that fail, the next 410 tries."""
        try:
            await self._switch_off(lane, GONE)
        except MailonceError as error:
            log.warning(WORKER_STALLED, step="switch_off", code=error.code)

    def _count(self, route: Route, end: str) -> None:
        self._metrics.attempts.labels(route.id, end).inc()

    def _ms_since(self, began_s: float) -> int:
        return int((self._clock.monotonic() - began_s) * 1000)


def _storable(error: str | None) -> str | None:
    """Clean what a handler, a resolver or an endpoint said: none of them knows our database."""
    return None if error is None else storable(error, chars_max=ERROR_CHARS_MAX)


_NOTHING_TO_SEND = retry.GiveUp("gone")
_UNROUTABLE = retry.GiveUp("unroutable")
