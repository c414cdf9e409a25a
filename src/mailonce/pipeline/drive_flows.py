"""Drive flows of `receive`: many together as far as they wait for nobody, or one to its end.

Whatever goes wrong in a flow is caught here, logged, and answered so that the provider tries
again; it costs that one arrival and no other.
"""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from mailonce.pipeline.receive import (
    HUGE_BYTES,
    PAUSE,
    Confirm,
    CountTry,
    FetchKey,
    FindSource,
    Flow,
    MatchMail,
    Offload,
    Pause,
    Receiving,
    RecordEntry,
    Reply,
    Step,
)
from mailonce.pipeline.record import FullError
from mailonce.pipeline.waiting import RecordResult
from mailonce.store.ledger import poison
from mailonce.telemetry import UNEXPECTED, log

UNEXPECTED_REPLY = Reply(503, {"detail": "an unexpected error was logged"}, 2)


class Requester(Protocol):
    """Who sent an arrival, as the drivers see it.

    `answer` is called exactly once, unless `wait` is: then `drive` goes on from that step, and its
    reply is the answer.
    """

    def answer(self, reply: Reply, /) -> None:
        """Take the reply."""
        ...

    def wait(self, flow: Flow, step: Step, /) -> None:
        """Have the flow driven to its end, in a task."""
        ...


def drive_together(parts: Receiving, incoming: Sequence[tuple[Flow, Requester]]) -> None:
    """Drive the arrivals of one turn of the event loop to their recording, or their first wait.

    Each step is done for all before the next one, which a processor's caches favour.
    """
    ready: list[tuple[Flow, Requester, RecordEntry]] = []
    while incoming:
        paused: list[tuple[Flow, Requester]] = []
        for one in incoming:
            flow, requester = one
            try:
                step = flow.send(None)
                if step is PAUSE:
                    paused.append(one)
                elif isinstance(step, RecordEntry):
                    ready.append((flow, requester, step))
                else:
                    requester.wait(flow, step)
            except StopIteration as end:
                _answer(requester, end.value)
            except Exception as error:  # noqa: BLE001 - an outermost loop: the others go on
                _answer(requester, unexpected(error))
        incoming = paused
    for flow, requester, record in ready:
        try:
            parts.recorder.submit(record.entry, partial(_end, flow, requester))
        except FullError as error:
            _end(flow, requester, error)


def _end(flow: Flow, requester: Requester, outcome: RecordResult) -> None:
    """Give a flow the outcome of its entry; its reply is the next thing it yields."""
    try:
        step = flow.throw(outcome) if isinstance(outcome, Exception) else flow.send(outcome)
    except StopIteration as end:
        reply = end.value
    except Exception as error:  # noqa: BLE001 - an outermost loop: the others go on
        reply = unexpected(error)
    else:
        reply = unexpected(AssertionError(f"{step} comes after the recording"))
    _answer(requester, reply)


def _answer(requester: Requester, reply: Reply) -> None:
    try:
        requester.answer(reply)
    except Exception as error:  # noqa: BLE001 - the others must be answered as well
        log.error(UNEXPECTED, where="answer", error=type(error).__name__, exc_info=error)


async def drive(parts: Receiving, flow: Flow, step: Step = PAUSE) -> Reply:
    """Drive one flow to its end; `step` is the one that it waits for."""
    try:
        while True:
            try:
                result = await _do(parts, step)
            except Exception as error:  # noqa: BLE001 - the flow decides what it means
                step = flow.throw(error)
            else:
                step = flow.send(result)
    except StopIteration as end:
        reply: Reply = end.value
        return reply
    except Exception as error:  # noqa: BLE001 - an outermost loop: the provider must try again
        return unexpected(error)


async def _do(parts: Receiving, step: Step) -> Any:
    match step:
        case Pause():
            return None
        case FindSource(name):
            return await parts.find_source(name)
        case FetchKey(url):
            return await parts.fetch_key(url)
        case Offload(work, body_bytes):
            async with parts.huge if body_bytes > HUGE_BYTES else nullcontext(), parts.large:
                return await asyncio.to_thread(work)
        case MatchMail(workspace, recipients):
            return await parts.match_mail(workspace, recipients)
        case Confirm(url):
            return await parts.fetch_url(url)
        case CountTry(source, key):
            now_ms = parts.clock.now_ms()
            return await parts.database.write(
                lambda tx: poison.count_try(tx, source, key.hex(), now_ms=now_ms)
            )
        case RecordEntry(entry):
            return await parts.recorder.record(entry)


def unexpected(error: Exception) -> Reply:
    """Log an unexpected error, and answer so that the provider tries again."""
    log.error(UNEXPECTED, where="in", error=type(error).__name__, exc_info=error)
    return UNEXPECTED_REPLY
