"""Make one attempt: run it, judge its outcome, and hand its end to the finisher."""

import asyncio
from collections.abc import Callable
from typing import Any

from mailonce.clock import Clock
from mailonce.core.text import storable
from mailonce.core.work import lifecycle, response_outcome
from mailonce.core.work.job import ERROR_CHARS_MAX, AttemptOutcome, End, Finish, LeasedJob
from mailonce.core.work.retry_rule import WorkRule
from mailonce.errors import MailonceError
from mailonce.queue.finish import Finisher
from mailonce.queue.work import EndLater, Work
from mailonce.queue.work_lane import WorkLane
from mailonce.telemetry import (
    BREAKER_CLOSED,
    BREAKER_OPENED,
    UNEXPECTED,
    WORKER_STALLED,
    OutgoingMetrics,
    log,
)

GONE = "the endpoint answered 410 Gone"
_END_WORDS = {end: end.name.lower() for end in End}


class Attempts:
    """Makes attempts of one kind of work; `ended` is called when one is over.

    `written` is called when its end is stored. Until then its slot is taken.
    """

    def __init__(
        self,
        work: Work,
        clock: Clock,
        metrics: OutgoingMetrics,
        *,
        ended: Callable[[WorkLane, LeasedJob], None],
        written: Callable[[], None],
    ) -> None:
        self.work = work
        self._clock = clock
        self._metrics = metrics
        self._finisher = Finisher(work.leases, clock, metrics)
        self._ended = ended
        self._written = written
        # The ends that kinds write themselves, for which nobody waits.
        self._unwritten: set[asyncio.Future[Any]] = set()
        self.start = self._finisher.start

    async def close(self, *, timeout_s: float) -> None:
        """Wait until what is over is written, within a time limit."""
        if self._unwritten:
            await asyncio.wait(self._unwritten, timeout=timeout_s)
        await self._finisher.close(timeout_s=timeout_s)

    async def make(self, lane: WorkLane, job: LeasedJob, *, until_s: float) -> None:
        """Run a job that was leased until `until_s`, unless it is too late for that."""
        began_s = self._clock.monotonic()
        settings = lane.settings
        if settings.rule.off is not None or began_s >= until_s:
            self._give_back(lane, job, until_s=until_s)
            return
        outcome: AttemptOutcome | None = None
        verdict: response_outcome.Verdict = response_outcome.RetryIn(0)
        try:
            try:
                result = await self.work.run(settings, job)
            except Exception as error:  # noqa: BLE001 - an outermost loop: one bad job is not the end
                log.error(UNEXPECTED, where="attempt", error=type(error).__name__, exc_info=error)
                result = AttemptOutcome(error=f"unexpected {type(error).__name__}")
            if isinstance(result, EndLater):
                self._end_later(lane, job, result)
                return
            outcome = result
            if outcome is not None and outcome.is_untried:
                self._give_back(lane, job, until_s=until_s)
                return
            self._note_health(lane, outcome)
            if outcome is not None and outcome.end is None:
                verdict = self._judge(settings.rule, job, outcome, began_s)
            if isinstance(verdict, response_outcome.SwitchOff):
                await self._switch_off_surely(lane)
        except asyncio.CancelledError:
            lane.breaker.abandoned()
            outcome = outcome or AttemptOutcome(error="it was stopped before the answer")
        self._ended(lane, job)
        if outcome is None or outcome.end is not None:
            self._end_own(lane, outcome)
        else:
            self._finish(lane, job, outcome, verdict, began_s=began_s, until_s=until_s)

    def _end_later(self, lane: WorkLane, job: LeasedJob, later: EndLater[Any]) -> None:
        """Let the lane go on while the end of an attempt is being written.

        As many of these wait to be written as the lane makes attempts at once; from there on, an
        attempt counts as under way until its end is written.
        """
        self._note_health(lane, later.outcome)
        goes_on = lane.unwritten < lane.rule.concurrency
        if goes_on:
            lane.unwritten += 1
            self._ended(lane, job)

        def written(end: "asyncio.Future[Any]") -> None:
            self._unwritten.discard(end)
            if goes_on:
                lane.unwritten -= 1
            else:
                self._ended(lane, job)
            self._end_own(lane, _written_outcome(later, end))

        self._unwritten.add(later.written)
        later.written.add_done_callback(written)

    def _end_own(self, lane: WorkLane, outcome: AttemptOutcome | None) -> None:
        """Note an attempt that ended its lease itself."""
        self._count(lane, "own" if outcome is None else outcome.end or "own")
        if outcome is not None and outcome.due_in_ms is not None:
            lane.due_in(outcome.due_in_ms / 1000, now_s=self._clock.monotonic())
        self._written()

    def _give_back(self, lane: WorkLane, job: LeasedJob, *, until_s: float) -> None:
        """End the lease of a job that is not tried.

        Its lane was switched off meanwhile, or we were paused until its lease may be over: then
        another worker may have it, and this changes nothing.
        """
        lane.breaker.abandoned()
        self._ended(lane, job)
        finish = lifecycle.finish(job.key, job.token, End.UNTRIED)
        self._finisher.put(finish, until_s=until_s, done=self._written)

    def _judge(
        self, rule: WorkRule, job: LeasedJob, outcome: AttemptOutcome, began_s: float
    ) -> response_outcome.Verdict:
        if response_outcome.is_done(outcome):
            return response_outcome.Done()
        left_ms = job.left_ms - self._ms_since(began_s)
        dice = int.from_bytes(self._clock.chance(2), "big") / 65_535
        return response_outcome.judge(outcome, rule, step=job.step, left_ms=left_ms, dice=dice)

    def _finish(
        self,
        lane: WorkLane,
        job: LeasedJob,
        outcome: AttemptOutcome,
        verdict: response_outcome.Verdict,
        *,
        began_s: float,
        until_s: float,
    ) -> None:
        end, wait_ms, reason, letter = End.DONE, 0, "", b""
        match verdict:
            case response_outcome.Done():
                pass
            case (
                response_outcome.RetryIn(wait_ms=wait_ms)
                | response_outcome.SwitchOff(wait_ms=wait_ms)
            ):
                end = End.RETRY
            case response_outcome.GiveUp(reason=reason):
                end, letter = End.DEAD, self._clock.new_id()
                self.work.note_dead(lane.id, reason, key=job.key)
        took_ms = self._ms_since(began_s)
        self._count(lane, _END_WORDS[end])
        self._metrics.attempt_seconds.observe(took_ms / 1000)
        move = lifecycle.end_of_lease(end)
        finish = Finish(
            job.key,
            job.token,
            move.state,
            move.lane,
            move.due_in_ms(wait_ms),
            took_ms,
            outcome.status,
            _storable(outcome.error),
            outcome.answer or None,
            letter,
            reason,
        )
        if end is not End.RETRY:
            self._finisher.put(finish, until_s=until_s, done=self._written)
            return

        def written() -> None:
            lane.due_in(wait_ms / 1000, now_s=self._clock.monotonic())
            self._written()

        self._finisher.put(finish, until_s=until_s, done=written)

    def _note_health(self, lane: WorkLane, outcome: AttemptOutcome | None) -> None:
        if outcome is not None and outcome.pause_ms is not None:
            lane.pause(outcome.pause_ms / 1000, now_s=self._clock.monotonic())
        if outcome is not None and outcome.dead_reason is not None:
            lane.breaker.abandoned()
        elif outcome is None or response_outcome.is_well(outcome):
            if lane.breaker.succeeded():
                self._metrics.breaker_open.labels(lane.id).set(0)
                log.info(BREAKER_CLOSED, route=lane.id, name=lane.name)
        elif lane.breaker.failed(self._clock.monotonic()):
            self._metrics.breaker_open.labels(lane.id).set(1)
            log.warning(BREAKER_OPENED, route=lane.id, name=lane.name)

    async def _switch_off_surely(self, lane: WorkLane) -> None:
        """Switch off before the work is due again; should that fail, the next 410 tries."""
        try:
            await self.work.switch_off(lane.id, GONE)
        except MailonceError as error:
            log.warning(WORKER_STALLED, step="switch_off", code=error.code)
        except Exception as error:  # noqa: BLE001 - an outermost loop: its slot must be given back
            log.error(UNEXPECTED, where="switch_off", error=type(error).__name__, exc_info=error)

    def _count(self, lane: WorkLane, end: str) -> None:
        self._metrics.count_attempt(lane.id, end)

    def _ms_since(self, began_s: float) -> int:
        return int((self._clock.monotonic() - began_s) * 1000)


def _written_outcome(later: EndLater[Any], end: "asyncio.Future[Any]") -> AttemptOutcome:
    """Say what a worker is to know of an end, also where something went wrong with it."""
    try:
        return later.after(end.result())
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - its slot must be given back
        log.error(UNEXPECTED, where="end", error=type(error).__name__, exc_info=error)
        return later.outcome


def _storable(error: str | None) -> str | None:
    """Make the error text of a handler, a resolver or an endpoint storable."""
    return None if error is None else storable(error, chars_max=ERROR_CHARS_MAX)
