"""Callers that wait for the group commit, and how they get the outcome of their entries."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from mailonce.core.ledger.entry import Entry, EntryOutcome
from mailonce.errors import UnavailableError
from mailonce.telemetry import UNEXPECTED, log

# What a caller gets, once: the outcome when it is durable, or that nothing was recorded.
RecordResult = EntryOutcome | UnavailableError
Tell = Callable[[RecordResult], None]


class NotRecordedError(UnavailableError):
    """Nothing was written, though the database works: by a mistake of ours, or in a rush."""

    reason = "unexpected"


class WaitingEntry(Struct, gc=False):
    """An entry of the group commit, and the caller that waits for its outcome."""

    entry: Entry
    weight: int
    tell: Tell | None

    def notify(self, result: RecordResult) -> None:
        """Answer the caller, once; what goes wrong on its side does not concern the batch."""
        tell, self.tell = self.tell, None
        if tell is None:
            return
        try:
            tell(result)
        except Exception as error:  # noqa: BLE001 - the other callers must be answered
            log.error(UNEXPECTED, where="answer", error=type(error).__name__, exc_info=error)


def tell_all(batch: list[WaitingEntry], answers: list[EntryOutcome]) -> None:
    """Answer each caller with the outcome of its entry, once that is durable."""
    for waiting, answer in zip(batch, answers, strict=True):
        waiting.notify(answer)


def fail(batch: list[WaitingEntry], error: UnavailableError) -> None:
    """Answer callers that nothing was written."""
    for waiting in batch:
        waiting.notify(error)


def give_up(batch: list[WaitingEntry], error: Exception) -> None:
    """Ask callers to try again, after an error that nobody foresaw."""
    log.error(UNEXPECTED, where="record", error=type(error).__name__, exc_info=error)
    fail(batch, NotRecordedError("the batch could not be recorded; try again"))


def resolve(answered: "asyncio.Future[EntryOutcome]", result: RecordResult) -> None:
    """Hand the result to the task that awaits it, unless that was cancelled."""
    if answered.done():
        return
    if isinstance(result, UnavailableError):
        answered.set_exception(result)
    else:
        answered.set_result(result)
