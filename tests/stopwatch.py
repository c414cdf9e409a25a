"""Time what must be quick, on a machine that has other things to do."""

import time
from types import TracebackType
from typing import Self

SAMPLE_S = 0.02


class Stopwatch:
    """Measure the seconds that a block would take on a quiet machine.

    Where others use the processors too, everything takes longer; how much longer is seen from
    a loop of known length before and after the block. On a quiet machine nothing is taken off.
    """

    def __enter__(self) -> Self:
        self.slowness = slowness()
        self._began_s = time.monotonic()
        self._ended_s: float | None = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended_s = time.monotonic()
        self.slowness = max(self.slowness, slowness())

    @property
    def seconds(self) -> float:
        return self.wall_s / self.slowness

    @property
    def wall_s(self) -> float:
        assert self._ended_s is not None, "read a stopwatch after its block"
        return self._ended_s - self._began_s


def slowness() -> float:
    """Say how many seconds pass while we are given one of the processor: 1 if nobody else is."""
    began_s, used_s = time.monotonic(), time.thread_time()
    while time.thread_time() - used_s < SAMPLE_S:
        pass
    return max(1.0, (time.monotonic() - began_s) / (time.thread_time() - used_s))
