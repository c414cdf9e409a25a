"""Guess that a batch is all new, and save the reading of the owners.

Most batches hold no copy. Such a batch is written at once; the statement itself finds out when a
key is taken after all, writes nothing, and the batch is judged with the owners. So a wrong guess
costs time, never truth. After one we ask first for a while, longer each time.
"""

from collections.abc import Collection, Iterable

# Keys that this process wrote lately: a quick retry comes back to the same door.
KEYS_MAX = 50_000
WAIT_MAX = 1_024


class Guess:
    """What one process guesses about which keys are new."""

    def __init__(self) -> None:
        self._recent: set[bytes] = set()
        self._older: set[bytes] = set()
        self._penalty = 1
        self._wait = 0

    def allows(self, keys: Collection[bytes]) -> bool:
        """Say whether a batch with these keys may be written without reading the owners first."""
        if self._wait:
            self._wait -= 1
            return False
        return self._recent.isdisjoint(keys) and self._older.isdisjoint(keys)

    def was_wrong(self) -> None:
        """Read the owners first for the next batches."""
        self._penalty = min(self._penalty * 2, WAIT_MAX)
        self._wait = self._penalty

    def was_right(self) -> None:
        """Trust the next guesses more."""
        self._penalty = max(1, self._penalty // 2)

    def remember(self, keys: Iterable[bytes]) -> None:
        self._recent.update(keys)
        if len(self._recent) > KEYS_MAX:
            self._older, self._recent = self._recent, set()
