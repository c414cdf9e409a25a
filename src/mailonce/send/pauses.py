"""Pauses: whether the process stood still since a moment, and with it the lease that it holds.

A process that is stopped, or whose machine sleeps, does not notice: it goes on where it was, long
after its lease was given to another. So a timer ticks while something is watched, by a clock that
goes on meanwhile; two ticks that are too far apart are a pause. Right after one, the first thing to
run may be something else than the timer, so the time since the last tick is looked at as well.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_S = 0.5
# Longer, and others may have taken over: leases are longer than this.
PAUSE_S_MAX = 2.0


class PauseWatch:
    """Watches for pauses of this process; `uptime` counts on while the machine sleeps."""

    def __init__(self, uptime: Callable[[], float]) -> None:
        self._uptime = uptime
        self._watching = 0
        self._pauses = 0
        self.ticked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watching(self) -> Iterator[Callable[[], bool]]:
        """Watch from now on; what it gives says whether there was no pause yet."""
        if not self._watching:
            self.ticked_s = self._uptime()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._run)
        self._watching += 1
        self.tick()
        pauses = self._pauses

        def is_steady() -> bool:
            self.tick()
            return self._pauses == pauses

        try:
            yield is_steady
        finally:
            self._watching -= 1

    def tick(self) -> None:
        """Look at the clock."""
        now_s = self._uptime()
        if now_s - self.ticked_s > PAUSE_S_MAX:
            self._pauses += 1
        self.ticked_s = now_s

    def _run(self) -> None:
        self._timer = None
        if self._watching:
            self.tick()
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._run)
