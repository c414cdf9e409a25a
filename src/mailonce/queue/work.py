"""A kind of work: all that a worker must know to run it. Deliveries are one (`deliveries.py`)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.core.work.retry_rule import WorkRule
from mailonce.store.dialects.contract import Leases
from mailonce.store.schema.work_table import WorkTable

T = TypeVar("T")


class LaneSettings(NamedTuple):
    """A lane as it is set up now; `subject` is what its attempts need, a route for example."""

    workspace: str
    rule: WorkRule
    subject: Any = None
    # Whether failures in a row hold up all of it: it has one endpoint, which may be down.
    has_breaker: bool = True


@dataclass(frozen=True, slots=True)
class EndLater(Generic[T]):
    """An attempt whose answer is there, and whose end is still being written by its own kind.

    Its lane may begin the next one; its slot is taken until `written` is done.
    """

    outcome: AttemptOutcome
    written: "asyncio.Future[T]"
    # Says what the worker is to know once it is written.
    after: Callable[[T], AttemptOutcome]


RunResult = AttemptOutcome | EndLater[Any] | None


class Work(Protocol):
    """One kind of work. The ids of lanes are unique over all kinds."""

    @property
    def table(self) -> WorkTable:
        """Where it is kept."""

    @property
    def leases(self) -> Leases:
        """Its leases."""

    def find(self, lane: str) -> LaneSettings | None:
        """Find a lane that this process can run, as it is set up now."""

    def then(self, changed: Callable[[], None]) -> None:
        """Set the callback for whenever the lanes' settings were read again."""

    async def run(self, lane: LaneSettings, job: LeasedJob) -> RunResult:
        """Make an attempt: its outcome is judged and written down.

        None, or an outcome with an `end`: it ended its lease itself; `EndLater`: it is about to.
        """

    async def switch_off(self, lane: str, reason: str) -> None:
        """Switch a lane off because its endpoint wants nothing more."""

    def note_dead(self, lane: str, reason: str, *, key: bytes | None = None, many: int = 1) -> None:
        """Log what was given up: one by its key, or how many."""
