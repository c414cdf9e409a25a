"""Which mail counts: what comes from then on, or what an operator says."""

import asyncio
import time
from email.utils import formatdate

import pytest

from mailonce.core.access import Caller, Scope
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.expectation_request import ExpectationRequest
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.errors import AccessError, ClashError
from mailonce.inbox.expectations.open_expectation import open_expectation
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


async def test_mail_that_an_operator_says_counts_does_so_at_any_age(room: WaitingRoom) -> None:
    now = formatdate(time.time())
    await room.send(code_mail("111222", Received=f"from a by b; {now}", Date=now))
    await room.turn_clock(130)

    early = await room.open(after=0, subject="early")
    by_agent = await room.open(caller=AGENT, subject="agent")
    await room.send(code_mail("734120", Date=now))

    assert (await room.settled(early)).state is ExpectationState.READY
    settled = await room.settled(by_agent)
    assert (settled.state, settled.reason) == (ExpectationState.AMBIGUOUS, "stale_suspect")


async def test_an_agent_cannot_ask_for_mail_that_came_before(room: WaitingRoom) -> None:
    with pytest.raises(AccessError):
        await room.open(caller=AGENT, after=0)


async def test_a_key_opens_one_expectation_for_each_caller(room: WaitingRoom) -> None:
    """Agents choose the same words; what one has opened is not handed to the other."""
    other = Caller("default", Scope.AGENT, "key_other_agent")
    request = ExpectationRequest(kind=ArtifactKind.CODE)

    opened = await asyncio.gather(
        *(
            open_expectation(room.parts, caller, room.inbox, request, key="sign-up")
            for caller in (AGENT, other) * 5
        )
    )

    mine = {one.expectation.id for one in opened[0::2]}
    theirs = {one.expectation.id for one in opened[1::2]}
    assert (len(mine), len(theirs)) == (1, 1)
    assert mine != theirs
    assert [one.is_replay for one in opened].count(False) == 2
    changed = ExpectationRequest(kind=ArtifactKind.CODE, resends=2)
    with pytest.raises(ClashError):
        await open_expectation(room.parts, AGENT, room.inbox, changed, key="sign-up")
