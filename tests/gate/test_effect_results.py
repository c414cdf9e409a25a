"""What handlers of an outbox return in place of nothing: it is done once, or told why not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Gate, Passage, Response
from mailonce.gate.outbox import AsyncOutbox, Outbox, Owed
from tests.gate.gates import DONE, ask, async_store_of, store_of
from tests.gate.places import Place

DONE_ONCE = {"due": 0, "done": 1, "dead": 0}
FAILED = {"due": 1, "done": 0, "dead": 0}
GIVEN_UP = {"due": 0, "done": 0, "dead": 1}


def owe(place: Place) -> None:
    def work(passage: Passage[Any]) -> Response:
        passage.owe("receipt", b"to ann")
        return DONE

    Gate(store_of(place)).run(ask(), work)


def drained(place: Place, handler: Callable[[Owed], Any]) -> dict[str, int]:
    """Drain more often than a failure would be tried at once."""
    outbox = Outbox(store_of(place), {"receipt": handler})
    for _ in range(3):
        outbox.drain()
        place.let_outbox_be_due()
    return outbox.counts()


async def drained_awaited(place: Place, handler: Callable[[Owed], Any]) -> dict[str, int]:
    outbox = AsyncOutbox(async_store_of(place), {"receipt": handler})
    for _ in range(3):
        await outbox.drain()
        place.let_outbox_be_due()
    return await outbox.counts()


def errors(place: Place) -> str:
    return str(place.query("SELECT last_error FROM webhook_outbox")[0][0])


def test_an_effect_whose_handler_gives_a_finished_task_is_done_once(place: Place) -> None:
    owe(place)
    sent: list[Owed] = []

    async def send(owed: Owed) -> None:
        sent.append(owed)

    def handler(owed: Owed) -> "asyncio.Task[None]":
        with asyncio.Runner() as runner:
            task = runner.get_loop().create_task(send(owed))
            runner.get_loop().run_until_complete(task)
        return task

    assert drained(place, handler) == DONE_ONCE
    assert len(sent) == 1


def test_work_that_a_handler_gave_to_a_thread_is_waited_for(place: Place) -> None:
    owe(place)
    failures = [ValueError("the service is away")]
    sent: list[Owed] = []

    def send(owed: Owed) -> None:
        if failures:
            raise failures.pop()
        sent.append(owed)

    with ThreadPoolExecutor(1) as threads:

        def handler(owed: Owed) -> "Future[None]":
            return threads.submit(send, owed)

        assert drained(place, handler) == DONE_ONCE
    assert (len(sent), failures) == (1, [])


def test_a_task_that_a_handler_left_running_is_not_started_again_and_again(place: Place) -> None:
    owe(place)
    started: list[Owed] = []

    async def send() -> None:
        await asyncio.Event().wait()

    with asyncio.Runner() as runner:

        def handler(owed: Owed) -> "asyncio.Task[None]":
            started.append(owed)
            return runner.get_loop().create_task(send())

        assert drained(place, handler) == GIVEN_UP
    assert len(started) == 1
    assert "did not wait for its end; use AsyncOutbox" in errors(place)


def test_an_effect_that_never_began_is_not_taken_for_done(place: Place) -> None:
    owe(place)

    def generator(_: Owed) -> Iterator[int]:
        yield 1

    async def awaited_generator(_: Owed) -> AsyncIterator[int]:
        yield 1

    assert drained(place, lambda owed: generator(owed)) == FAILED  # noqa: PLW0108 - hides its kind
    assert "ConfigError: the handler of 'receipt' has a `yield`" in errors(place)
    for handler in (generator, awaited_generator):
        with pytest.raises(ConfigError, match="remove the `yield`"):
            Outbox(store_of(place), {"receipt": handler})


async def test_what_an_async_handler_forgot_to_await_is_done_once(place: Place) -> None:
    sent: list[Owed] = []

    async def send(owed: Owed) -> None:
        sent.append(owed)

    async def forgot(owed: Owed) -> Any:
        return send(owed)

    async def gave_a_task(owed: Owed) -> Any:
        return asyncio.create_task(send(owed))

    async def owing(passage: AsyncPassage[Any]) -> Response:
        await passage.owe("receipt", b"to ann")
        return DONE

    for number, handler in enumerate((forgot, gave_a_task)):
        await AsyncGate(async_store_of(place)).run(ask(f"k-{number}"), owing)
        assert await drained_awaited(place, handler) == DONE_ONCE | {"done": number + 1}
        assert len(sent) == number + 1


async def test_a_cancelled_task_of_a_handler_is_a_failure_and_ends_no_worker(place: Place) -> None:
    owe(place)

    async def handler(_: Owed) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    assert await drained_awaited(place, handler) == FAILED
    assert "was cancelled by itself" in errors(place)
