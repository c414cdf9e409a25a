"""The world's clock and dice: the only module that asks for the time or for chance."""

import os
import time

from mailonce.core.ids import mint

_CHUNK = 4000


class Clock:
    """Tells the time and mints ids. Tests pass one of their own."""

    def __init__(self) -> None:
        self._entropy = b""
        self._used = 0

    def now_ms(self) -> int:
        """Tell the wall time in unix milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Tell seconds that never run backwards, for timeouts."""
        return time.monotonic()

    def chance(self, size: int) -> bytes:
        """Give random bytes that nobody can guess."""
        return os.urandom(size)

    def new_id(self) -> bytes:
        """Mint an id. Chance is fetched in chunks: a batch mints hundreds."""
        if self._used + 10 > len(self._entropy):
            self._entropy, self._used = os.urandom(_CHUNK), 0
        chance = self._entropy[self._used : self._used + 10]
        self._used += 10
        return mint(self.now_ms(), chance)
