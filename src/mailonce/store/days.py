"""Days of the log: which ones may hold a row, so that few partitions are searched."""

from mailonce.core.ids import first_id, minted_ms
from mailonce.store.dialects.contract import DAY_MS

# An id is minted by the door's clock, its day is the database's; they are not a day apart.
SKEW_DAYS = 1


def days_of(id_: bytes) -> tuple[int, int]:
    """Give the first and the last day that a row with this id may lie in."""
    day = minted_ms(id_) // DAY_MS
    return day - SKEW_DAYS, day + SKEW_DAYS


def ids_below(day: int) -> bytes:
    """Give a bound that every id received on `day` or before is below."""
    return first_id((day + 1 + SKEW_DAYS) * DAY_MS)


def ids_from(day: int) -> bytes:
    """Give a bound that every id received on `day` or after is at or above."""
    return first_id((day - SKEW_DAYS) * DAY_MS)
