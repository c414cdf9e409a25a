"""Name resolution: on threads beside the event loop, one for each name at most."""

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

# Names whose last look-up was slow share threads of their own: a tenant whose routes all lead to
# names of a dead name server takes those of everybody once, not at every retry.
THREADS = 32
SLOW_THREADS = 8
SLOW_S = 1.0
DNS_KEEP_S = 10.0
NAMES_KEPT = 4_096


class Resolver(Protocol):
    """Gives the addresses of a name, best first.

    Raises: OSError where it has none.
    """

    async def resolve(self, host: str) -> tuple[str, ...]:
        """Look a name up."""

    def close(self) -> None:
        """End what is under way."""


class SystemResolver:
    """Resolves by the system, on threads: some for all names, some for those known as slow."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._slow_threads = ThreadPoolExecutor(SLOW_THREADS, thread_name_prefix="slow-names")
        # The latest last; a dict, because it keeps their order.
        self._slow: dict[str, None] = {}

    async def resolve(self, host: str) -> tuple[str, ...]:
        threads = self._slow_threads if host in self._slow else self._threads
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, self._look_up, host)

    def close(self) -> None:
        """Let threads end by themselves."""
        for threads in (self._threads, self._slow_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _look_up(self, host: str) -> tuple[str, ...]:
        began_s = time.monotonic()
        try:
            return _look_up(host)
        finally:
            self._slow.pop(host, None)
            if time.monotonic() - began_s > SLOW_S:
                self._slow[host] = None
            while len(self._slow) > NAMES_KEPT:
                self._slow.pop(next(iter(self._slow)), None)


class Names:
    """Caches addresses for some seconds; concurrent callers share one look-up."""

    def __init__(self, resolver: Resolver, *, monotonic: Callable[[], float]) -> None:
        self._resolver = resolver
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._lookups: dict[str, asyncio.Task[tuple[str, ...]]] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Give the addresses of a name.

        Raises: OSError where it has none.
        """
        until_s, known = self._known.get(host, (0.0, ()))
        if self._monotonic() < until_s:
            return known
        question = self._lookups.get(host)
        if question is None:
            question = self._lookups[host] = asyncio.create_task(self._resolver.resolve(host))
            question.add_done_callback(lambda done: self._note(host, done))
        # One caller who gives up must not take the answer from the others.
        return await asyncio.shield(question)

    def close(self) -> None:
        """Forget everything."""
        for question in self._lookups.values():
            question.cancel()
        self._resolver.close()
        self._known.clear()

    def _note(self, host: str, done: "asyncio.Task[tuple[str, ...]]") -> None:
        self._lookups.pop(host, None)
        # Looked at here, because every caller may have gone by now.
        if done.cancelled() or done.exception() is not None:
            return
        self._known.pop(host, None)
        self._known[host] = (self._monotonic() + DNS_KEEP_S, done.result())
        while len(self._known) > NAMES_KEPT:
            del self._known[next(iter(self._known))]


def _look_up(host: str) -> tuple[str, ...]:
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("the name cannot be resolved: a part of it is empty or too long") from error
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))
