"""A clock that stands until somebody turns it."""

from mailonce.clock import Clock
from tests.factories import new_id

NOON_MS = 1_767_268_800_000


class ManualClock(Clock):
    """Tells the time that a test set; ids of one moment sort in the order they were minted."""

    def __init__(self, ms: int = NOON_MS) -> None:
        super().__init__()
        self.ms = ms
        self.monotonic_s = 1_000.0

    def advance(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
        self.monotonic_s += seconds

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.monotonic_s

    def new_id(self) -> bytes:
        return new_id(self.ms)
