"""The circuit breaker of an endpoint: after failures in a row, one attempt at a time."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BreakerRule:
    """When it opens, and how long it waits before one attempt may try."""

    failures: int = 10
    wait_s: float = 5.0
    wait_s_max: float = 60.0


# Of a lane whose work has no one endpoint that could be down.
NEVER_OPEN = BreakerRule(failures=sys.maxsize)


@dataclass(slots=True)
class Breaker:
    """Counts failures in a row. Times are seconds of a monotonic clock, handed in."""

    rule: BreakerRule
    _failures: int = 0
    _wait_s: float = 0.0
    # When an open breaker lets the next attempt through.
    next_look_s: float = 0.0
    _probing: bool = False

    @property
    def is_open(self) -> bool:
        """Say whether the endpoint is taken to be down."""
        return self._failures >= self.rule.failures

    def allows(self, now_s: float) -> int | None:
        """Say how many attempts may start: None for any number."""
        if not self.is_open:
            return None
        return 0 if self._probing or now_s < self.next_look_s else 1

    def started(self) -> None:
        self._probing = self.is_open

    def succeeded(self) -> bool:
        """Close; say whether it was open."""
        was_open = self.is_open
        self._failures, self._wait_s, self._probing = 0, 0.0, False
        return was_open

    def failed(self, now_s: float) -> bool:
        """Count a failure; say whether that opened it."""
        was_open = self.is_open
        self._failures += 1
        if not self.is_open:
            return False
        # Attempts that were under way when it opened say nothing new.
        if not was_open or self._probing:
            self._wait_s = min(self.rule.wait_s_max, self._wait_s * 2 or self.rule.wait_s)
            self.next_look_s = now_s + self._wait_s
        self._probing = False
        return not was_open

    def abandoned(self) -> None:
        """Note that an attempt ended without a result."""
        self._probing = False
