"""The bounds of one process's worker."""

from dataclasses import dataclass, field

from mailonce.core.work.breaker import BreakerRule


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of one process's worker."""

    # Attempts under way or not yet written down; beyond them each lane has one slot of its own,
    # up to as many again.
    concurrency: int = 512
    lease_s: float = 30.0
    hold_s: float = 10.0
    drain_s: float = 15.0
    give_up_every_s: float = 30.0
    # How often to look for what no wake-up told of, and who is gone.
    look_every_s: float = 1.0
    # So long after its lease an attempt is stopped: by then the lease was seen to be lost.
    overdue_s: float = 2.0
    lost_leases_max: int = 8
    breaker: BreakerRule = field(default_factory=BreakerRule)
