"""Decide whether the clock is trusted to say what is old enough to be deleted.

A clock that is two years ahead makes everything two years old: the log, the keys by which copies
are known, the ledger of sends. So a clock that leaps ahead has to run on for a while before it is
believed. A machine that was off for long looks the same, and waits as well.
"""

DAY_MS = 86_400_000
# What leaps by less than this share of the window leaves most of it.
WINDOW_SHARE = 5
# Where no server has said how long the window is.
WINDOW_DAYS = 35
# So long an operator has to see it.
WAIT_MS = DAY_MS


def leap_ms(window_days: int) -> int:
    """Say how far a clock may move ahead between two looks at it."""
    return (window_days or WINDOW_DAYS) * DAY_MS // WINDOW_SHARE


def next_forget_from(from_ms: int, *, noted_ms: int, now_ms: int, window_days: int) -> int:
    """Say from when on old things are deleted, now that the clock is seen again.

    `from_ms` was said before; `noted_ms` is what the clock said then, 0 before the first look.
    """
    step_ms, limit_ms = now_ms - noted_ms, leap_ms(window_days)
    if noted_ms == 0 or step_ms < -limit_ms:
        # Set back that far, it is the clock from before the leap.
        return 0
    if step_ms > limit_ms:
        return now_ms + WAIT_MS
    return from_ms + min(0, step_ms) if from_ms else 0


def waits_until_ms(from_ms: int, *, noted_ms: int, now_ms: int, window_days: int) -> int | None:
    """Say until when nothing is deleted; None: what is old now may be.

    A leap that nobody has noted yet counts as well.
    """
    if noted_ms and now_ms - noted_ms > leap_ms(window_days):
        return now_ms + WAIT_MS
    return from_ms if now_ms < from_ms else None
