"""The writer thread of SQLite: one connection, one thread, by priority."""

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from mailonce.store.dialects.contract import DatabaseUnavailableError, Priority

T = TypeVar("T")

JOBS_MAX = 10_000

# What an error of SQLite means, by what its code begins with.
_CAUSES = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "its file is read-only",
    "SQLITE_BUSY": "another process holds it",
    "SQLITE_CANTOPEN": "its file cannot be opened",
    "SQLITE_IOERR_WRITE": "the disk refuses to write",
    "SQLITE_IOERR": "the disk reports an error",
    "SQLITE_CORRUPT": "its file is damaged",
    "SQLITE_NOTADB": "its file is damaged",
}


class Writer:
    """A thread with a bounded queue; lower priorities wait, equals go in order.

    `afterwards` is called after each job, when whoever waits for it has its result already; it may
    not raise.
    """

    def __init__(self, afterwards: Callable[[], None] | None = None) -> None:
        self._afterwards = afterwards
        self._jobs: queue.PriorityQueue[tuple[int, int, Callable[[], None] | None]] = (
            queue.PriorityQueue()
        )
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._work, name="mailonce-writer", daemon=True)
        self._thread.start()

    async def run(self, priority: Priority, work: Callable[[], T]) -> T:
        if self._jobs.qsize() >= JOBS_MAX:
            raise DatabaseUnavailableError("the writer has too much to do; try again in a moment")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
                loop.call_soon_threadsafe(_fail, done, error)
            else:
                loop.call_soon_threadsafe(_fulfil, done, result)

        self._jobs.put((priority, next(self._order), job))
        return await done

    async def close(self) -> None:
        self._jobs.put((Priority.MAINTENANCE + 1, next(self._order), None))
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()[2]
            if job is None:
                return
            job()
            if self._afterwards is not None:
                self._afterwards()


def _fulfil(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)


def unavailable(error: BaseException | None) -> DatabaseUnavailableError:
    """Say that nothing was written; the message of the library may quote values."""
    name = error_name(error)
    cause = next((words for code, words in _CAUSES.items() if name.startswith(code)), "")
    what = f": {cause}" if cause else ""
    return DatabaseUnavailableError(
        f"the database cannot be written now{what} ({name}); try again in a moment"
    )


def error_name(error: BaseException | None) -> str:
    """Name an error by its code, which says all that an operator needs."""
    return str(getattr(error, "sqlite_errorname", type(error).__name__))
