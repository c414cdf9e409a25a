"""The clock: the only module that reads the time or random bytes."""

import os
import time

from mailonce.core.ids import mint

# Ten bytes for each of four hundred ids.
_CHUNK = 4000


class Clock:
    """Gives the time and mints ids. Tests pass one of their own."""

    def __init__(self) -> None:
        self._entropy = b""
        self._used = 0

    def now_ms(self) -> int:
        """Give the wall time in unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Give seconds that never run backwards, for timeouts."""
        return time.monotonic()

    def uptime(self) -> float:
        """Give seconds that count on while the machine sleeps, where it can tell."""
        # Linux has a clock of its own for that; elsewhere the other one may stop meanwhile.
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()

    def chance(self, size: int) -> bytes:
        """Give cryptographically random bytes."""
        return os.urandom(size)

    def new_id(self) -> bytes:
        """Mint an id. Random bytes are read in chunks: a batch mints hundreds."""
        begin = self._used
        if begin == len(self._entropy):
            self._entropy, begin = os.urandom(_CHUNK), 0
        end = self._used = begin + 10
        return mint(self.now_ms(), self._entropy[begin:end])
