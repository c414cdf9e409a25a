"""What the handler of an owed effect returned: the effect is done, has failed, or never began."""

import asyncio
import concurrent.futures
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate.flows.outbox import GiveUpError

GENERATOR = (
    "the handler of {topic!r} has a `yield`, so that calling it does nothing; remove the `yield`"
)
AWAITS = "the handler of {topic!r} awaits, and Outbox does not; use AsyncOutbox"
# It may be done by now: trying again could do it once more with each attempt.
STARTED = (
    "the handler of {topic!r} started a task and did not wait for its end; use AsyncOutbox, then "
    "look whether it was done before you call `outbox.revive()`"
)


def see_end(result: object, topic: str, *, wait_s: float) -> None:
    """See that what a handler returned has ended, waiting `wait_s` for work in another thread.

    Raises: what the work raised; ConfigError where nothing was done; GiveUpError where it may have
    been, since a further attempt would do it again; TimeoutError.
    """
    if iscoroutine(result):
        result.close()
        raise ConfigError(AWAITS.format(topic=topic))
    if isgenerator(result) or isasyncgen(result):
        raise ConfigError(GENERATOR.format(topic=topic))
    if isinstance(result, concurrent.futures.Future):
        result.result(wait_s)
    elif asyncio.isfuture(result):
        _see_end_of_future(result, topic)
    elif isawaitable(result):
        raise ConfigError(AWAITS.format(topic=topic))


def _see_end_of_future(future: "asyncio.Future[object]", topic: str) -> None:
    if not future.done():
        raise GiveUpError(STARTED.format(topic=topic))
    if future.cancelled():
        raise UnavailableError(f"the effect {topic!r} was cancelled by itself")
    error = future.exception()
    if error is not None:
        raise error
