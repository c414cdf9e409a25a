"""The server opens a consumed link once, and says what became of it."""

import asyncio

import pytest

from mailonce.core.expectations.expectation import Expectation
from mailonce.core.expectations.redemption import Redemption, RedemptionState
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.core.moment import moment
from mailonce.errors import ClashError, RefusedError
from mailonce.inbox.expectations.consume import (
    LeaseReleasedError,
    NotConsumedError,
    confirm,
    consume,
)
from mailonce.inbox.expectations.redeem import RedeemingError, redeem
from mailonce.net.http import GuardedClient
from mailonce.store.schema.expectation_tables import CONSUMPTION_ACTS
from tests.endpoint import Request, answers, hangs_up
from tests.inbox.expectations.waiting_room import AGENT, WaitingRoom, code_mail, link_mail

DONE, UNKNOWN = RedemptionState.DONE, RedemptionState.UNKNOWN


async def consumed_link(room: WaitingRoom, path: str) -> Expectation:
    """Open an expectation of a link to the endpoint, and consume what comes."""
    endpoint = room.desk.endpoint
    expectation = await room.open(ArtifactKind.LINK, link_hosts=(endpoint.url("/").rstrip("/"),))
    await room.send(link_mail(endpoint.url(path)))
    await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    return expectation


async def ask(room: WaitingRoom, expectation: Expectation, key: str = "run-1") -> Redemption:
    return await redeem(room.parts, AGENT, expectation.id, consume_key=key)


async def test_the_link_is_requested_once_however_often_it_is_asked_for(room: WaitingRoom) -> None:
    endpoint = room.desk.endpoint
    endpoint.behaviours["/verify?token=abc1234567"] = answers(
        302, location="/welcome", set_cookie="session=1"
    )
    expectation = await consumed_link(room, "/verify?token=abc1234567#part")

    outcomes = await asyncio.gather(
        *(ask(room, expectation) for _ in range(5)), return_exceptions=True
    )
    later = await ask(room, expectation)

    assert (later.state, later.status, later.host, later.hops) == (DONE, 200, "127.0.0.1", 1)
    assert all(isinstance(one, RedeemingError | Redemption) for one in outcomes)
    assert [one.path for one in endpoint.requests] == ["/verify?token=abc1234567", "/welcome"]
    for request in endpoint.requests:
        assert not {"cookie", "authorization", "referer"} & set(request.headers)
    acts = [row["act"] for row in await room.desk.rows(CONSUMPTION_ACTS)]
    assert acts.count("redeem") == 1


async def test_a_redirect_that_leads_elsewhere_is_not_followed(room: WaitingRoom) -> None:
    room.desk.endpoint.behaviours["/verify/a"] = answers(302, location="https://evil.example/x")
    expectation = await consumed_link(room, "/verify/a")

    outcome = await ask(room, expectation)

    assert (outcome.state, outcome.status) == (RedemptionState.REFUSED, 302)
    assert outcome.reason == "host_not_allowed"
    assert len(room.desk.endpoint.requests) == 1


async def test_who_goes_away_meanwhile_leaves_an_outcome(room: WaitingRoom) -> None:
    """An agent's tool is cancelled while the request is made: it ends, and is known afterwards."""
    endpoint = room.desk.endpoint
    arrived, is_free = asyncio.Event(), asyncio.Event()

    async def held(request: Request, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await is_free.wait()
        await answers(204, b"")(request, writer)

    endpoint.behaviours["/verify/a"] = held
    expectation = await consumed_link(room, "/verify/a")
    asking = asyncio.create_task(ask(room, expectation))
    await arrived.wait()

    asking.cancel()
    await asyncio.wait([asking])
    with pytest.raises(RedeemingError):
        await ask(room, expectation)
    is_free.set()

    async def is_over() -> bool:
        try:
            return (await ask(room, expectation)).status == 204
        except RedeemingError:
            return False

    await room.desk.until(is_over)
    assert len(endpoint.requests) == 1


async def test_redirects_without_end_are_cut_off(room: WaitingRoom) -> None:
    room.desk.endpoint.behaviours["/verify/a"] = answers(302, location="/verify/a")
    expectation = await consumed_link(room, "/verify/a")

    outcome = await ask(room, expectation)

    assert (outcome.state, outcome.reason) == ("refused", "too_many_redirects")
    assert len(room.desk.endpoint.requests) == 6


async def test_an_answer_that_never_comes_is_unknown_and_not_asked_for_again(
    room: WaitingRoom,
) -> None:
    room.desk.endpoint.behaviours["/verify/a"] = hangs_up
    expectation = await consumed_link(room, "/verify/a")

    outcomes = [await ask(room, expectation) for _ in range(3)]

    assert {(one.state, one.reason) for one in outcomes} == {(UNKNOWN, "no_answer")}
    assert len(room.desk.endpoint.requests) == 1


async def test_where_nobody_listens_it_may_be_asked_for_again(room: WaitingRoom) -> None:
    expectation = await consumed_link(room, "/verify/a")
    port = room.desk.endpoint.port
    await room.desk.endpoint.stop()

    outcome = await ask(room, expectation)
    again = await ask(room, expectation)

    assert (outcome.state, again.state) == ("not_called", "not_called")
    assert room.desk.endpoint.port == port


async def test_a_private_address_is_refused_whatever_the_allow_list_says(room: WaitingRoom) -> None:
    expectation = await consumed_link(room, "/verify/a")
    async with GuardedClient() as strict:
        room.change(client=strict)

        outcome = await ask(room, expectation)

    assert (outcome.state, outcome.reason) == ("refused", "blocked_address")
    assert room.desk.endpoint.requests == []


async def test_what_was_begun_by_a_process_that_died_is_unknown(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    expectation = await consumed_link(room, "/verify/a")

    async def dies(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(room.parts.client, "call", dies)
        with pytest.raises(asyncio.CancelledError):
            await ask(room, expectation)
    with pytest.raises(RedeemingError):
        await ask(room, expectation)
    await room.turn_clock(60)

    outcomes = [await ask(room, expectation) for _ in range(2)]

    assert {(one.state, one.reason) for one in outcomes} == {(UNKNOWN, "interrupted")}
    assert room.desk.endpoint.requests == []


async def test_only_who_holds_the_lease_redeems(room: WaitingRoom) -> None:
    expectation = await consumed_link(room, "/verify/a")
    with pytest.raises(NotConsumedError):
        await ask(room, expectation, "run-2")
    await room.turn_clock(121)

    with pytest.raises(LeaseReleasedError):
        await ask(room, expectation)

    await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)
    assert room.desk.endpoint.requests == []


async def test_a_code_cannot_be_redeemed(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))
    await consume(room.parts, AGENT, expectation.id, consume_key="run-1")

    with pytest.raises(RefusedError, match="only a link"):
        await ask(room, expectation)


async def test_a_confirmed_link_is_not_opened_and_the_answer_says_why(room: WaitingRoom) -> None:
    expectation = await consumed_link(room, "/verify/a")
    confirmed = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)

    with pytest.raises(ClashError) as refused:
        await ask(room, expectation)

    assert f"it was confirmed at {moment(confirmed.consumption.ended_ms)}" in str(refused.value)
    assert room.desk.endpoint.requests == []
