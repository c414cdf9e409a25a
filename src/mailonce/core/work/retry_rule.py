"""The rule of a lane: how often, how fast and for how long its work is tried."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRule:
    """A lane's settings for worker and retry rule; a route has one, as has any kind of work."""

    # Waits before the second attempt, the third and so on; after the last it is given up.
    waits_s: tuple[float, ...]
    deadline_s: int
    # Attempts in all where the answer rejects the request itself.
    blamed_attempts_max: int = 1
    timeout_s: float = 15.0
    # The longest that an attempt can take, where that may be more than one lease: until then its
    # lease is renewed while its process is at it. 0: it is never renewed.
    attempt_s_max: float = 0.0
    concurrency: int = 32
    # Attempts a second; None: as many as the concurrency allows.
    rate_per_s: float | None = None
    # Of the attempts at once, so many are left to the first kind: whatever waits long in the others
    # never keeps it waiting. With 0 the kinds have their turns.
    reserved: int = 0
    # Why nothing is tried now; None while it is on.
    off: str | None = None
