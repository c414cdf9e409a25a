"""Recovery points and owed effects that a handler uses in a wrong way, or that fail."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

import psycopg
import psycopg_pool
import pytest

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate import AsyncGate, AsyncPassage, Gate, Outcome, Passage, Policy, Response
from mailonce.gate.stores.psycopg import PsycopgStore
from tests.gate.gates import DONE, ask, async_store_of, store_of
from tests.gate.places import ORDER, Place


class Calls:
    """An outside service that counts, and knows no repeats."""

    def __init__(self, result: Any = 7) -> None:
        self.count = 0
        self.result = result

    def call(self, _: str) -> Any:
        self.count += 1
        return self.result

    async def call_awaited(self, key: str) -> Any:
        return self.call(key)


def order(tx: Any) -> None:
    tx.execute(ORDER)


async def order_awaited(tx: Any) -> None:
    await tx.exec_driver_sql(ORDER)


@pytest.mark.parametrize("lost", ["charge", "order"])
def test_a_point_whose_commit_has_no_answer_is_neither_done_again_nor_overwritten(
    postgres_place: Place, lost: str
) -> None:
    postgres_place.empty()
    calls = Calls()
    armed: list[str] = []

    class Cut(psycopg.Connection[Any]):
        def wait(self, *args: Any, **choices: Any) -> Any:
            result = super().wait(*args, **choices)
            if result == "COMMIT" and armed:
                armed.clear()
                self.close()
                raise psycopg.OperationalError("the connection is lost")
            return result

    def work(passage: Passage[Any]) -> Response:
        # A handler that is too patient: what it swallows must not count as not done.
        for name in ("charge", "order", "order"):
            if name == lost and not passage.recovered:
                armed.append(name)
            with suppress(UnavailableError, ConfigError):
                if name == "charge":
                    passage.once(name, calls.call)
                elif not passage.recovered.get(name):
                    passage.phase(name, lambda tx: tx.execute(ORDER) and 1)
        return DONE

    pool: Any
    with psycopg_pool.ConnectionPool(
        postgres_place.url, connection_class=Cut, min_size=1, max_size=2
    ) as pool:
        gate = Gate(PsycopgStore(pool), mode="lease")
        first = gate.run(ask(), work)
        again = gate.run(ask(), patient(calls))

    assert (calls.count, postgres_place.orders()) == (1, 1)
    assert (first.outcome, again.outcome) == (Outcome.UNAVAILABLE, Outcome.FIRST)


def patient(calls: Calls) -> Callable[[Passage[Any]], Response]:
    def work(passage: Passage[Any]) -> Response:
        passage.once("charge", calls.call)
        passage.phase("order", lambda tx: tx.execute(ORDER) and 1)
        return DONE

    return work


def test_a_result_that_the_handler_changes_is_recorded_as_it_was(place: Place) -> None:
    gate = Gate(store_of(place), mode="lease")
    given: list[Any] = []
    made: Any = {"id": 1, "lines": ["tea"]}

    def work(passage: Passage[Any]) -> Response:
        charge = passage.once("charge", lambda _: made)
        given.append(dict(charge))
        charge["lines"].append("sugar")
        charge["id"] = 2
        passage.phase("order", order)
        passage.recovered.get("charge", {}).clear()
        raise UnavailableError("later")

    outcomes = [gate.run(ask(), work).outcome for _ in range(3)]
    (points,) = place.query("SELECT recovery_points FROM webhook_idempotency")[0]

    assert outcomes == [Outcome.UNAVAILABLE] * 3
    assert points == '{"charge": {"id": 1, "lines": ["tea"]}, "order": null}'
    assert [one["id"] for one in given] == [1, 1, 1]


async def test_an_awaited_point_that_hangs_ends_its_request_and_is_tried_again(
    place: Place,
) -> None:
    gate: AsyncGate[Any] = AsyncGate(async_store_of(place), Policy(point_s=0.05), mode="lease")

    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    async def hanging(passage: AsyncPassage[Any]) -> Response:
        await passage.once("charge", hang)
        return DONE

    async def hanging_in_phase(passage: AsyncPassage[Any]) -> Response:
        await passage.phase("order", hang)
        return DONE

    async def work(passage: AsyncPassage[Any]) -> Response:
        await passage.phase("order", order_awaited)
        return DONE

    outcomes = [
        (await asyncio.wait_for(gate.run(ask(), handler), timeout=30)).outcome
        for handler in (hanging, hanging_in_phase, work)
    ]

    assert outcomes == [Outcome.UNAVAILABLE, Outcome.UNAVAILABLE, Outcome.FIRST]
    assert place.orders() == 1


def test_the_lease_of_a_blocking_point_that_hangs_is_not_renewed(place: Place) -> None:
    gate = Gate(store_of(place), Policy(point_s=1e-9), mode="lease")
    renewed: list[bool] = []

    def work(passage: Passage[Any]) -> Response:
        renewed.append(passage.renew())
        passage.once("charge", lambda _: renewed.append(passage.renew()))
        renewed.append(passage.renew())
        return DONE

    assert gate.run(ask(), work).outcome is Outcome.FIRST
    assert renewed == [True, False, True]


def test_a_second_effect_under_one_name_is_refused(place: Place) -> None:
    def owe(passage: Passage[Any]) -> None:
        passage.owe("receipt", b"to ann")

    def once(passage: Passage[Any]) -> None:
        passage.once("charge", lambda _: 1)

    def phase(passage: Passage[Any]) -> None:
        passage.phase("order", order)

    for act, mode in ((owe, "atomic"), (once, "lease"), (phase, "lease")):
        for swallow in (False, True):
            gate: Gate[Any] = Gate(store_of(place), mode=mode)  # type: ignore[arg-type]

            def work(
                passage: Passage[Any],
                act: Callable[[Passage[Any]], None] = act,
                swallow: bool = swallow,  # noqa: FBT001 - binds the loop's value
            ) -> Response:
                act(passage)
                with suppress(ConfigError if swallow else KeyError):
                    act(passage)
                return DONE

            with pytest.raises(ConfigError, match="twice in one request, and would be done once"):
                gate.run(ask(f"{act.__name__}-{swallow}"), work)
    assert place.query("SELECT count(*) FROM webhook_outbox") == [(0,)]


def test_an_effect_that_a_savepoint_undid_may_be_owed_again(place: Place) -> None:
    def work(passage: Passage[Any]) -> Response:
        passage.tx.execute("SAVEPOINT mine")
        passage.owe("receipt", b"to ann")
        passage.tx.execute("ROLLBACK TO SAVEPOINT mine")
        passage.owe("receipt", b"to ann")
        passage.owe("receipt", b"to ann", name="a second one")
        return DONE

    assert Gate(store_of(place)).run(ask(), work).outcome is Outcome.FIRST
    assert place.query("SELECT count(*) FROM webhook_outbox") == [(2,)]


async def test_of_two_tasks_with_one_name_one_is_refused_and_nothing_is_kept(
    place: Place,
) -> None:
    calls = Calls()

    async def owing(passage: AsyncPassage[Any]) -> Response:
        await asyncio.gather(
            passage.owe("receipt", b"to ann"),
            passage.owe("receipt", b"to bob"),
            return_exceptions=True,
        )
        return DONE

    async def charging(passage: AsyncPassage[Any]) -> Response:
        await asyncio.gather(
            passage.once("charge", calls.call_awaited),
            passage.once("charge", calls.call_awaited),
            return_exceptions=True,
        )
        return DONE

    store = async_store_of(place)
    with pytest.raises(ConfigError, match="twice in one request"):
        await AsyncGate(store).run(ask("owing"), owing)
    with pytest.raises(ConfigError, match="twice in one request"):
        await AsyncGate(store, mode="lease").run(ask("charging"), charging)

    assert place.query("SELECT count(*) FROM webhook_outbox") == [(0,)]
    assert calls.count == 1


async def test_a_task_of_the_passage_that_has_not_ended_refuses_the_answer(place: Place) -> None:
    calls = Calls()
    tasks: list[asyncio.Task[None]] = []

    async def owing(passage: AsyncPassage[Any]) -> Response:
        tasks.append(asyncio.create_task(passage.owe("receipt", b"to ann")))
        return DONE

    async def charging(passage: AsyncPassage[Any]) -> Response:
        tasks.append(asyncio.create_task(passage.once("charge", calls.call_awaited)))
        return DONE

    async def owing_in_phase(passage: AsyncPassage[Any]) -> Response:
        async def order_and_owe(tx: Any) -> None:
            await order_awaited(tx)
            await owing(passage)

        await passage.phase("order", order_and_owe)
        return DONE

    store = async_store_of(place)
    for handler, mode in ((owing, "atomic"), (charging, "lease"), (owing_in_phase, "lease")):
        gate: AsyncGate[Any] = AsyncGate(store, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="has not ended as the handler answers; write `await"):
            await gate.run(ask(handler.__name__), handler)
        await asyncio.gather(*tasks, return_exceptions=True)

    assert place.query("SELECT count(*) FROM webhook_outbox") == [(0,)]
    assert place.orders() == 0


async def test_points_of_several_tasks_are_recorded_one_after_the_other(place: Place) -> None:
    calls = Calls()
    gate: AsyncGate[Any] = AsyncGate(async_store_of(place), mode="lease")

    async def work(passage: AsyncPassage[Any]) -> Response:
        await asyncio.gather(
            *(passage.once(f"charge-{number}", calls.call_awaited) for number in range(3)),
            *(passage.phase(f"order-{number}", order_awaited) for number in range(3)),
        )
        return Response.json(200, await passage.once("sum", calls.call_awaited))

    answer = await gate.run(ask(), work)

    assert (answer.outcome, calls.count, place.orders()) == (Outcome.FIRST, 4, 3)


async def test_a_point_inside_another_one_is_refused_before_it_is_done(place: Place) -> None:
    calls = Calls()

    def work(passage: Passage[Any]) -> Response:
        def nested(tx: Any) -> None:
            order(tx)
            passage.once("charge", calls.call)

        passage.phase("order", nested)
        return DONE

    async def work_awaited(passage: AsyncPassage[Any]) -> Response:
        async def nested(tx: Any) -> None:
            await order_awaited(tx)
            await passage.once("charge", calls.call_awaited)

        await passage.phase("order", nested)
        return DONE

    with pytest.raises(ConfigError, match="let the other one end first"):
        Gate(store_of(place), mode="lease").run(ask("k-1"), work)
    with pytest.raises(ConfigError, match="let the other one end first"):
        await AsyncGate(async_store_of(place), mode="lease").run(ask("k-2"), work_awaited)

    assert (calls.count, place.orders()) == (0, 0)


@pytest.mark.parametrize(
    ("result", "words"),
    [(Decimal("1.50"), "a Decimal, which is no JSON"), ("x" * 2000, "points_bytes_max")],
    ids=["no JSON", "too large"],
)
def test_a_call_whose_result_cannot_be_recorded_is_not_made_again(
    place: Place, result: Any, words: str
) -> None:
    calls = Calls(result)
    gate = Gate(store_of(place), Policy(points_bytes_max=1000), mode="lease")

    for _ in range(3):
        with pytest.raises(ConfigError, match=f"'charge' was made, but .*{words}.*a new name"):
            gate.run(ask(), lambda passage: Response.json(200, passage.once("charge", calls.call)))

    assert calls.count == 1


def test_a_change_whose_result_cannot_be_recorded_is_undone(place: Place) -> None:
    gate = Gate(store_of(place), mode="lease")

    with pytest.raises(ConfigError, match=r"'order' was undone.* a Cursor, which is no JSON"):
        gate.run(ask(), lambda passage: passage.phase("order", lambda tx: tx.execute(ORDER)))

    assert place.orders() == 0


async def test_a_function_of_the_wrong_kind_is_refused_before_its_call_or_done(
    place: Place,
) -> None:
    calls = Calls()
    gate: Gate[Any] = Gate(store_of(place), mode="lease")

    async def work(passage: AsyncPassage[Any]) -> Response:
        # A plain function has done its work when it returns.
        return Response.json(200, await passage.once("charge", calls.call))

    def hidden(key: str) -> Any:
        return calls.call_awaited(key)

    def run(name: Any, call: Any) -> None:
        gate.run(ask("k-1"), lambda passage: Response.json(200, passage.once(name, call)))

    for call in (calls.call_awaited, hidden):
        with pytest.raises(ConfigError, match="nothing was done; use AsyncGate"):
            run("charge", call)
    with pytest.raises(ConfigError, match="named by a text"):
        run(1, calls.call)
    assert calls.count == 0
    answer = await AsyncGate(async_store_of(place), mode="lease").run(ask("k-2"), work)
    assert (answer.outcome, answer.response.body, calls.count) == (Outcome.FIRST, b"7", 1)


def test_a_point_that_failed_may_be_tried_again_in_the_same_request(place: Place) -> None:
    failures = [ValueError("not yet")]

    def call(_: str) -> int:
        if failures:
            raise failures.pop()
        return 7

    def work(passage: Passage[Any]) -> Response:
        with suppress(ValueError):
            passage.once("charge", call)
        return Response.json(200, passage.once("charge", call))

    assert Gate(store_of(place), mode="lease").run(ask(), work).response.body == b"7"
