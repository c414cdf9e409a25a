"""A process notices that it stood still, and does not begin what others may have taken over."""

import asyncio
from typing import Any

from mailonce.core.sends.sending import SendOutcome
from mailonce.send import pauses
from mailonce.send.pauses import PauseWatch
from tests.core.sends.send_requests import make_request
from tests.send.office import OK, Office


class Uptime:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def test_two_ticks_too_far_apart_are_a_pause() -> None:
    uptime = Uptime()
    watch = PauseWatch(uptime)

    with watch.watching() as is_steady:
        for _ in range(10):
            uptime.now_s += pauses.PAUSE_S_MAX
            watch.tick()
        assert is_steady()
        uptime.now_s += pauses.PAUSE_S_MAX + 0.1
        watch.tick()
        watch.tick()

        assert not is_steady()


async def test_a_pause_is_noticed_before_the_timer_has_run() -> None:
    uptime = Uptime()

    with PauseWatch(uptime).watching() as is_steady:
        uptime.now_s += 60

        assert not is_steady()


async def test_what_begins_after_a_pause_is_not_blamed_for_it() -> None:
    uptime = Uptime()
    watch = PauseWatch(uptime)

    with watch.watching() as before:
        uptime.now_s += 60
        with watch.watching() as after:
            assert (before(), after()) == (False, True)
    uptime.now_s += 60
    with watch.watching() as later:
        assert later()


async def test_the_timer_ticks_while_something_is_watched() -> None:
    uptime = Uptime()
    watch = PauseWatch(uptime)

    with watch.watching() as is_steady:
        uptime.now_s += 1.9
        before_s = watch.ticked_s
        while watch.ticked_s == before_s:
            await asyncio.sleep(0.01)
        uptime.now_s += 1.9

        assert is_steady()


async def test_a_call_that_was_paused_while_it_connected_is_made_later(office: Office) -> None:
    await office.add_sender()
    uptime = Uptime()
    office.pauses = PauseWatch(uptime)
    real = office.provider.transmit

    async def connect(*call: Any, **named: Any) -> SendOutcome:
        if uptime.now_s == 100.0:
            uptime.now_s += 60
        return await real(*call, **named)

    office.provider.transmit = connect  # type: ignore[method-assign]
    office.provider.answers = lambda _: OK
    office.start()

    await office.submit(make_request())
    await office.until("accepted")

    assert len(office.provider.calls) == 1
    assert await office.steps() == [("call", "try_again"), ("call", "accepted")]
