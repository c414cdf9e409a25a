"""A loop goes on, whatever becomes of one step of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

from structlog.testing import capture_logs

from mailonce.errors import UnavailableError
from mailonce.loop import Loop
from mailonce.telemetry import UNEXPECTED

FOREVER_S = 3600.0

Result = float | Exception | None


def steps_of(results: list[Result], done: asyncio.Event) -> Callable[[], Awaitable[float | None]]:
    async def step() -> float | None:
        result = results.pop(0)
        if not results:
            done.set()
        if isinstance(result, Exception):
            raise result
        return result

    return step


async def run(
    results: list[Result], *, wakes: int = 0, failed: str = UNEXPECTED
) -> list[dict[str, object]]:
    done = asyncio.Event()
    loop = Loop("tests", steps_of(results, done), retry_s=0.001, failed=failed)
    with capture_logs() as logs:
        loop.start()
        async with asyncio.timeout(20):
            for _ in range(wakes):
                await asyncio.sleep(0.01)
                loop.wake()
            await done.wait()
            await asyncio.sleep(0)
        await loop.stop()
    return [dict(one) for one in logs]


async def test_an_error_nobody_foresaw_does_not_end_a_loop() -> None:
    logs = await run([RuntimeError("a mistake of ours"), UnavailableError("away"), 0.0, None])

    assert [(one["log_level"], one["where"]) for one in logs[:2]] == [
        ("error", "tests"),
        ("warning", "tests"),
    ]
    assert (logs[1]["code"], logs[1]["reason"]) == ("unavailable", "away")


async def test_an_outage_is_logged_once_and_its_end_is_not_guessed() -> None:
    away = UnavailableError("away")
    logs = await run([away, away, away, 0.0, 0.0, away, away, RuntimeError("ours"), away, None])

    assert [one["event"] for one in logs] == [
        "database_unavailable",
        "database_unavailable",
        "unexpected_error",
    ]


async def test_a_loop_with_an_event_of_its_own_logs_an_outage_under_that() -> None:
    away = UnavailableError("away")
    logs = await run([away, away, 0.0, None], failed="maintenance_failed")

    assert [one["event"] for one in logs] == ["maintenance_failed"]


async def test_who_is_woken_runs_at_once() -> None:
    assert await run([FOREVER_S, FOREVER_S, None], wakes=2) == []


async def test_waking_during_a_step_is_not_lost() -> None:
    again = asyncio.Event()
    counted = 0

    async def step() -> float:
        nonlocal counted
        counted += 1
        if counted == 1:
            loop.wake()
        else:
            again.set()
        return FOREVER_S

    loop = Loop("tests", step, retry_s=1)
    loop.start()
    async with asyncio.timeout(20):
        await again.wait()
    await loop.stop()


async def test_a_loop_that_is_woken_as_it_stops_does_stop() -> None:
    begun = asyncio.Event()

    async def step() -> float:
        begun.set()
        return FOREVER_S

    loop = Loop("tests", step, retry_s=1)
    loop.start()
    await begun.wait()
    await asyncio.sleep(0.01)
    loop.wake()
    async with asyncio.timeout(20):
        await loop.stop()


async def test_what_fails_again_and_again_is_tried_ever_less_often() -> None:
    moments: list[float] = []
    clock = asyncio.get_running_loop().time
    enough = asyncio.Event()

    async def step() -> float:
        moments.append(clock())
        if len(moments) == 5:
            enough.set()
        raise UnavailableError("away")

    loop = Loop("tests", step, retry_s=0.02, retry_s_max=0.08)
    with capture_logs():
        loop.start()
        async with asyncio.timeout(20):
            await enough.wait()
        await loop.stop()

    waits = [after - before for before, after in pairwise(moments)]
    assert all(wait >= least for wait, least in zip(waits, (0.02, 0.04, 0.08, 0.08), strict=True))


async def test_a_step_that_fails_waits_although_it_is_woken_all_the_time() -> None:
    times: list[float] = []

    async def fail() -> float | None:
        times.append(time.monotonic())
        raise UnavailableError("away")

    loop = Loop("tests", fail, retry_s=0.2)
    loop.start()
    async with asyncio.timeout(20):
        while len(times) < 3:
            loop.wake()
            await asyncio.sleep(0.001)
    await loop.stop()

    assert all(later - sooner >= 0.2 for sooner, later in pairwise(times))


async def test_a_step_that_fails_as_it_is_cancelled_does_not_keep_the_loop() -> None:
    begun = asyncio.Event()

    async def step() -> float:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise UnavailableError("away") from None
        return FOREVER_S

    loop = Loop("tests", step, retry_s=FOREVER_S)
    loop.start()
    await begun.wait()
    async with asyncio.timeout(10):
        await loop.stop()
