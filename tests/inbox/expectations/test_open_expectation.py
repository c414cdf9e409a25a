"""Which mail counts: what comes from then on, or what an operator says."""

import pytest

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.errors import AccessError
from tests.inbox.expectations.waiting_room import AGENT, WaitingRoom, code_mail


async def test_mail_that_came_before_counts_where_an_operator_says_so(room: WaitingRoom) -> None:
    await room.send(code_mail("111222"))
    await room.send(code_mail("734120"))

    fresh = await room.open()
    later = await room.open(after=1, subject="later")
    early = await room.open(after=0, subject="early", resends=2)
    beyond = await room.open(after=99, subject="beyond")
    await room.send(code_mail("555666"))

    standings = [await room.standing(one) for one in (fresh, later, early, beyond)]
    assert [settled.state for _, settled in standings] == [ExpectationState.READY] * 4
    assert [len(known.mails) for known, _ in standings] == [1, 2, 3, 1]


async def test_an_agent_cannot_ask_for_mail_that_came_before(room: WaitingRoom) -> None:
    with pytest.raises(AccessError):
        await room.open(caller=AGENT, after=0)
