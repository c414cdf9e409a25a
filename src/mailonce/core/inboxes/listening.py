"""Since when the SMTP door has listened without a gap: only then is "no mail came" proven."""

from collections.abc import Iterable
from typing import NamedTuple

# A process that listens says so every other second. One that has not for so long may be dead, or
# cannot reach the database, and then it accepts nothing either.
ALIVE_MS = 5_000


class ListeningPeriod(NamedTuple):
    """From when until when a process said that its door listens."""

    since_ms: int
    until_ms: int


def continued(before: ListeningPeriod | None, *, now_ms: int) -> ListeningPeriod:
    """Give the period of a process that listens now; after a silence it is a new one."""
    is_new = before is None or not before.until_ms <= now_ms <= before.until_ms + ALIVE_MS
    return ListeningPeriod(now_ms if is_new or before is None else before.since_ms, now_ms)


def gap_free_since(periods: Iterable[ListeningPeriod], *, now_ms: int) -> int | None:
    """Say since when some door listened at every instant until now; None where none does."""
    latest_first = sorted(periods, key=lambda period: period.until_ms, reverse=True)
    if not latest_first or latest_first[0].until_ms + ALIVE_MS < now_ms:
        return None
    since_ms = latest_first[0].since_ms
    for period in latest_first[1:]:
        if period.until_ms < since_ms:
            break
        since_ms = min(since_ms, period.since_ms)
    return since_ms
