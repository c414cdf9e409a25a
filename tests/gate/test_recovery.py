"""Work with effects outside: what a crashed copy had done is known to the next."""

from collections.abc import Callable
from typing import Any

import pytest

from mailonce.errors import ConfigError
from mailonce.gate import (
    Answer,
    AsyncGate,
    AsyncPassage,
    Gate,
    Outcome,
    Passage,
    Policy,
    Response,
)
from tests.gate.gates import DONE, ask, async_store_of, store_of
from tests.gate.places import ORDER, Place


class PowerCut(BaseException):
    """The process dies: nobody gets to clean up."""


class Bank:
    """An outside service that knows a repeat by its key, as it should."""

    def __init__(self) -> None:
        self.charges: dict[str, int] = {}
        self.calls = 0

    def charge(self, key: str) -> int:
        self.calls += 1
        return self.charges.setdefault(key, len(self.charges) + 1)


def crashing(gate: Gate[Any], work: Callable[[Passage[Any]], Response]) -> None:
    """Run `work` until it is cut off, and leave everything as the cut left it."""
    passage = gate.enter(ask())
    assert isinstance(passage, Passage)
    with pytest.raises(PowerCut):
        work(passage)


def test_after_a_crash_the_next_copy_goes_on_where_it_stopped(place: Place) -> None:
    bank = Bank()
    gate = Gate(store_of(place), mode="lease")

    def work(passage: Passage[Any], *, cut: bool) -> Response:
        charge = passage.once("charge", bank.charge)
        passage.phase("order", lambda tx: tx.execute(ORDER) and None)
        if cut:
            raise PowerCut
        return Response.json(200, {"charge": charge, "known": sorted(passage.recovered)})

    crashing(gate, lambda passage: work(passage, cut=True))
    early = gate.run(ask(), lambda passage: work(passage, cut=False))
    place.let_leases_end()
    late = gate.run(ask(), lambda passage: work(passage, cut=False))

    assert early.outcome is Outcome.RUNNING
    assert late.response.body == b'{"charge":1,"known":["charge","order"]}'
    assert (bank.calls, place.orders()) == (1, 1)


def test_a_crash_between_an_effect_and_its_record_repeats_the_call_under_the_same_key(
    place: Place,
) -> None:
    bank = Bank()
    gate = Gate(store_of(place), mode="lease")

    def cut_after_the_call(key: str) -> int:
        bank.charge(key)
        raise PowerCut

    def work(passage: Passage[Any]) -> Response:
        return Response.json(200, passage.once("charge", bank.charge))

    crashing(gate, lambda passage: Response.json(0, passage.once("charge", cut_after_the_call)))
    place.let_leases_end()
    answer = gate.run(ask(), work)

    assert answer.response.body == b"1"
    assert (bank.calls, len(bank.charges)) == (2, 1)


def test_a_holder_that_lost_its_lease_cannot_keep_a_phase(place: Place) -> None:
    gate = Gate(store_of(place), mode="lease")

    def paused(passage: Passage[Any]) -> Response:
        place.let_leases_end()
        assert gate.run(ask(), lambda _: DONE).outcome is Outcome.FIRST
        passage.phase("order", lambda tx: tx.execute(ORDER) and None)
        raise AssertionError("it must not get here")

    answer = gate.run(ask(), paused)

    assert answer.outcome is Outcome.REPLAYED
    assert answer.response.body == DONE.body
    assert place.orders() == 0


def test_a_renewed_lease_is_not_taken_and_a_lost_one_not_renewed(place: Place) -> None:
    gate = Gate(store_of(place), Policy(lease_s=60), mode="lease")
    passage = gate.enter(ask())
    assert isinstance(passage, Passage)
    place.let_leases_end()
    renewed = passage.renew()
    copy = gate.run(ask(), lambda _: DONE)
    place.let_leases_end()
    taker = gate.enter(ask())

    assert renewed
    assert copy.outcome is Outcome.RUNNING
    assert isinstance(taker, Passage)
    assert taker.token > passage.token
    assert not passage.renew()
    assert passage.lost


async def test_an_awaited_passage_recovers_alike(place: Place) -> None:
    bank = Bank()
    gate = AsyncGate(async_store_of(place), mode="lease")

    async def charge(key: str) -> int:
        return bank.charge(key)

    async def order(tx: Any) -> None:
        await tx.exec_driver_sql(ORDER)

    first = await gate.enter(ask())
    assert isinstance(first, AsyncPassage)
    await first.once("charge", charge)
    await first.phase("order", order)
    place.let_leases_end()

    async def work(passage: AsyncPassage[Any]) -> Response:
        await passage.phase("order", order)
        return Response.json(200, await passage.once("charge", charge))

    answer = await gate.run(ask(), work)
    late = await first.finish(DONE)

    assert answer.response.body == b"1"
    assert (late.outcome, late.response.body) == (Outcome.REPLAYED, b"1")
    assert (bank.calls, place.orders()) == (1, 1)


def test_an_atomic_passage_has_no_recovery_points(place: Place) -> None:
    gate = Gate(store_of(place))

    with pytest.raises(ConfigError, match="outbox"):
        gate.run(ask(), lambda passage: passage.once("charge", lambda _: DONE))


def test_an_effect_key_is_equal_on_each_try_and_differs_by_caller(place: Place) -> None:
    keys = []

    def work(passage: Passage[Any]) -> Response:
        keys.append(passage.effect_key("charge"))
        return Response(503)

    for caller in ("ann", "ann", "bob"):
        answer: Answer = Gate(store_of(place), Policy(caller=caller)).run(ask(), work)
        assert answer.outcome is Outcome.FAILED

    assert keys[0] == keys[1] != keys[2]
    assert keys[0] != "k-1"
