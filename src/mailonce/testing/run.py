"""Simulate: make the calls of a plan as the provider would, and report what was acknowledged."""

import asyncio
import heapq
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from mailonce.errors import ConfigError
from mailonce.testing.plan import Call, Plan
from mailonce.testing.simulator import SUCCESS, Happening, Post, PostingSide
from mailonce.testing.wire import (
    PostResponse,
    ReceiverAddress,
    ReceiverConnection,
    place_of,
    written,
)

# How long a connection with nothing to do sleeps.
IDLE_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPace:
    """Rates and limits. `time_scale` of the provider's seconds pass in one second."""

    rate: float = 200.0
    connections: int = 16
    retries: bool = True
    time_scale: float = 3600.0


@dataclass(slots=True, kw_only=True)
class SimulationReport:
    """The result of a simulation; numbers count posts unless they are named otherwise."""

    happened: tuple[Happening, ...]
    # Undamaged posts, each once however often it was tried; and all attempts.
    posts: int = 0
    attempts: int = 0
    acknowledged: int = 0
    # Ended by an answer that stops the provider and is no success.
    refused: int = 0
    # Ended by the end of the provider's schedule.
    gave_up: int = 0
    corrupted: int = 0
    corrupted_acknowledged: int = 0
    # Answers by code; 0 is none.
    codes: Counter[int] = field(default_factory=Counter)
    # What was in at least one acknowledged post, and what was in a damaged one.
    events_acknowledged: set[Happening] = field(default_factory=set)
    harmed: set[Happening] = field(default_factory=set)

    @property
    def untold(self) -> list[Happening]:
        """The happenings that were in no acknowledged post."""
        return [one for one in self.happened if one not in self.events_acknowledged]


class _Due(NamedTuple):
    at: float
    turn: int
    number: int
    attempt: int


async def simulate(
    simulator: PostingSide,
    plan: Plan,
    *,
    now_s: Callable[[], float],
    pace: SimulationPace | None = None,
    hear: Callable[[Call, PostResponse | None], None] = lambda _call, _response: None,
    tls: ssl.SSLContext | None = None,
) -> SimulationReport:
    """Make the calls to the simulator's URL; `hear` gets each answer, None where there was none.

    Posts are signed when they are sent, at `now_s()`. Ends when every call was acknowledged,
    refused or given up. With https, `tls` says whom to trust, by default the system's authorities.
    Raises: MailonceError where the receiver's certificate or its TLS is wrong, ConfigError where
    `now_s` is a time and no clock.
    """
    if not callable(now_s):
        raise ConfigError(
            f"`now_s` of a simulation is {now_s!r:.80}, and each post is signed at its own time; "
            "write the function: now_s=time.time"
        )
    place = place_of(simulator.to, tls)
    run = _Run(simulator, plan, pace or SimulationPace(), now_s, hear, place=place)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(run.pace.connections, len(plan.order))):
                group.create_task(run.work())
    except ExceptionGroup as faults:
        # Several connections may have met it.
        raise faults.exceptions[0] from None
    return run.report


class _Run:
    """The agenda of one simulation, worked off by several connections."""

    def __init__(
        self,
        simulator: PostingSide,
        plan: Plan,
        pace: SimulationPace,
        now_s: Callable[[], float],
        hear: Callable[[Call, PostResponse | None], None],
        *,
        place: ReceiverAddress,
    ) -> None:
        self.pace = pace
        self.report = SimulationReport(happened=plan.happened)
        self._simulator, self._plan = simulator, plan
        self._now_s, self._hear = now_s, hear
        self._place = place
        self._loop = asyncio.get_running_loop()
        self._first: dict[int, Post] = {}
        began = self._loop.time()
        # Sorted as it is made, and so a heap already.
        self._agenda = [
            _Due(began + turn / pace.rate, turn, number, 1)
            for turn, number in enumerate(plan.order)
        ]
        self._open = len(self._agenda)
        # When the rate allows the next attempt, be it a first one or a retry.
        self._free_at = began

    async def work(self) -> None:
        """Do what is due until nothing is open."""
        connection = ReceiverConnection(self._place)
        try:
            while self._open:
                now = self._loop.time()
                if not self._agenda or max(self._agenda[0].at, self._free_at) > now:
                    await asyncio.sleep(IDLE_S)
                    continue
                self._free_at = max(self._free_at, now - IDLE_S) + 1 / self.pace.rate
                due = heapq.heappop(self._agenda)
                request = written(self._place, "", self._post(due.number))
                self._settle(due, await connection.ask(request))
        finally:
            connection.close()

    def _post(self, number: int) -> Post:
        """Sign a call; a provider that does not sign retries anew repeats the first attempt."""
        call, now_s = self._plan.calls[number], int(self._now_s())
        if call.damaged:
            dice = Random(number)  # noqa: S311 - the same damage in the same plan
            return self._simulator.damage(self._simulator.post(call.happenings, now_s=now_s), dice)
        if self._simulator.resigns:
            return self._simulator.post(call.happenings, now_s=now_s)
        if number not in self._first:
            self._first[number] = self._simulator.post(call.happenings, now_s=now_s)
        return self._first[number]

    def _settle(self, due: _Due, response: PostResponse | None) -> None:
        call, report = self._plan.calls[due.number], self.report
        code = 0 if response is None else response.code
        report.attempts += 1
        report.codes[code] += 1
        self._hear(call, response)
        if not call.damaged and not self._simulator.stops(code):
            wait_s = self._wait_s(due.attempt)
            if wait_s is not None:
                at = self._loop.time() + wait_s
                heapq.heappush(self._agenda, due._replace(at=at, attempt=due.attempt + 1))
                return
        self._open -= 1
        if call.damaged:
            report.corrupted += 1
            report.corrupted_acknowledged += code in SUCCESS
            report.harmed.update(call.happenings)
            return
        report.posts += 1
        if code in SUCCESS:
            report.acknowledged += 1
            report.events_acknowledged.update(call.happenings)
        elif self._simulator.stops(code):
            report.refused += 1
        else:
            report.gave_up += 1

    def _wait_s(self, attempt: int) -> float | None:
        """Say how long to wait after that attempt, counted from 1; None where it was the last."""
        waits_s = self._simulator.retry_waits_s
        if not self.pace.retries or attempt > len(waits_s):
            return None
        return waits_s[attempt - 1] / self.pace.time_scale
