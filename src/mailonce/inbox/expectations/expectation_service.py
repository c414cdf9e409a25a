"""All parts of expectations that one process has."""

from dataclasses import dataclass

from mailonce.inbox.expectations.expectation_parts import ExpectationParts
from mailonce.inbox.expectations.sweep import ExpectationSweep
from mailonce.inbox.expectations.waiting import ExpectationWaiters


@dataclass(frozen=True, slots=True)
class ExpectationService:
    """What the doors call, who waits, and what ends by itself."""

    parts: ExpectationParts
    waiters: ExpectationWaiters
    sweep: ExpectationSweep
