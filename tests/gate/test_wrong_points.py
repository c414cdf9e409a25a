"""Recovery points that are given no function to call: refused before the call, nothing recorded."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Gate, Outcome, Passage, Response
from tests.gate.gates import DONE, ask, async_store_of, store_of
from tests.gate.places import Place, sqlite_place

calls: list[str] = []


def charge(key: str) -> int:
    calls.append(key)
    return 7


async def charge_awaited(key: str) -> int:
    return charge(key)


def of_three(_key: str, _amount: int, _account: str) -> int:
    return charge("k")


def yields(key: str) -> Iterator[int]:
    yield charge(key)


async def yields_awaited(key: str) -> AsyncIterator[int]:
    yield charge(key)


# What is given, made anew for each try, and what is said of it.
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a coroutine": (lambda: charge_awaited("k"), r"given a coroutine, .* write `.*lambda {}: …"),
    "a result of None": (lambda: None, r"given None, .* write `.*lambda {}: …"),
    "a result": (lambda: 7, r"given an int, .* write `.*lambda {}: …"),
    "no argument": (lambda: lambda: charge("k"), r"called with \({}\), .* write `lambda {}: …`"),
    "three arguments": (lambda: of_three, r"called with \({}\), .* write `lambda {}: …`"),
    "a generator": (lambda: yields, "has a `yield`"),
    "an async generator": (lambda: yields_awaited, "has a `yield`"),
}
# Functions whose result says that what they should do is not done.
UNDONE: dict[str, tuple[Callable[..., Any], str]] = {
    "a coroutine": (lambda key: charge_awaited(key), "use AsyncGate"),  # noqa: PLW0108 - hides it
    "an async function": (charge_awaited, "use AsyncGate"),
    "a function": (lambda _: charge, r"a function that nobody called.*call it"),
    "a function in a list": (lambda _: {"all": [charge]}, "a function that nobody called"),
    "a generator": (lambda key: (charge(key) for _ in range(2)), "a generator.*list"),
    "a coroutine in a dict": (lambda key: {"id": charge_awaited(key)}, "a coroutine.*await"),
}


@pytest.fixture
def file(tmp_path: Path) -> Place:
    """What is given to a point has nothing to do with the database."""
    return sqlite_place(tmp_path)


def recorded(place: Place) -> str:
    rows = place.query("SELECT recovery_points FROM webhook_idempotency")
    return str(rows[0][0])


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("act", ["once", "phase"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_point_cannot_call_is_refused_before_anything_is_done(
    file: Place, wrong: str, act: str, *, swallow: bool
) -> None:
    calls.clear()
    make, sentence = WRONG[wrong]
    gate = Gate(store_of(file), mode="lease")

    def work(passage: Passage[Any]) -> Response:
        with suppress(ConfigError if swallow else KeyError):
            getattr(passage, act)("charge", make())
        return DONE

    with pytest.raises(ConfigError, match=sentence.format(*["key" if act == "once" else "tx"] * 2)):
        gate.run(ask(), work)

    assert calls == []
    assert recorded(file) == "{}"


@pytest.mark.parametrize("act", ["once", "phase"])
@pytest.mark.parametrize("wrong", WRONG)
async def test_what_an_awaited_point_cannot_call_is_refused_before_anything_is_done(
    file: Place, wrong: str, act: str
) -> None:
    calls.clear()
    make, sentence = WRONG[wrong]

    async def work(passage: AsyncPassage[Any]) -> Response:
        await getattr(passage, act)("charge", make())
        return DONE

    with pytest.raises(ConfigError, match=sentence.format(*["key" if act == "once" else "tx"] * 2)):
        await AsyncGate(async_store_of(file), mode="lease").run(ask(), work)

    assert calls == []
    assert recorded(file) == "{}"


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("act", ["once", "phase"])
@pytest.mark.parametrize("undone", UNDONE)
def test_a_result_that_shows_that_nothing_was_done_is_not_recorded(
    file: Place, undone: str, act: str, *, swallow: bool
) -> None:
    calls.clear()
    function, sentence = UNDONE[undone]
    gate = Gate(store_of(file), mode="lease")

    def work(passage: Passage[Any]) -> Response:
        with suppress(ConfigError if swallow else KeyError):
            getattr(passage, act)("charge", function)
        return DONE

    for _ in range(2):
        with pytest.raises(ConfigError, match=sentence):
            gate.run(ask(), work)
    assert calls == []
    assert recorded(file) == "{}"

    # Once it is repaired, the same name is done.
    answer = gate.run(ask(), lambda passage: Response.json(200, passage.once("charge", charge)))
    assert (answer.outcome, len(calls)) == (Outcome.FIRST, 1)


async def test_a_coroutine_that_an_awaited_point_returned_is_not_taken_for_done(
    file: Place,
) -> None:
    calls.clear()
    gate: AsyncGate[Any] = AsyncGate(async_store_of(file), mode="lease")

    async def forgot(key: str) -> Any:
        return charge_awaited(key)

    async def work(passage: AsyncPassage[Any]) -> Response:
        return Response.json(200, await passage.once("charge", forgot))

    async def repaired(passage: AsyncPassage[Any]) -> Response:
        return Response.json(200, await passage.once("charge", charge_awaited))

    with pytest.raises(ConfigError, match=r"a coroutine .*nothing is recorded.*`await`"):
        await gate.run(ask(), work)
    assert (calls, recorded(file)) == ([], "{}")
    assert (await gate.run(ask(), repaired)).outcome is Outcome.FIRST
    assert len(calls) == 1


def collecting(function: Callable[[str], Iterator[int]]) -> Callable[[str], list[int]]:
    """Give a decorated generator, which does its work when it is called."""

    @wraps(function)
    def collected(key: str) -> list[int]:
        return list(function(key))

    return collected


class Bank:
    def charge(self, key: str, amount: int = 7) -> int:
        return charge(f"{key}-{amount}")

    async def __call__(self, key: str) -> int:
        return self.charge(key)


class Booking:
    """It can be awaited, and is no coroutine: it is there, so it was made."""

    def __await__(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        raise AssertionError("nobody may close what is the app's own")


async def test_whatever_can_be_called_is_called(file: Place) -> None:
    calls.clear()
    functions: list[Any] = [
        charge,
        collecting(yields),
        Bank().charge,
        partial(Bank().charge, amount=8),
        Mock(return_value=7),
        lambda *given: charge(given[0]),
        lambda key, *, amount=1: charge(key) * amount,
    ]
    awaited: list[Any] = [
        charge_awaited,
        Bank(),
        partial(charge_awaited),
        AsyncMock(return_value=7),
    ]

    def work(passage: Passage[Any]) -> Response:
        results = [passage.once(f"c-{n}", one) for n, one in enumerate(functions)]
        return Response.json(200, results)

    async def work_awaited(passage: AsyncPassage[Any]) -> Response:
        results = [await passage.once(f"c-{n}", one) for n, one in enumerate(awaited + functions)]
        return Response.json(200, results)

    done = Gate(store_of(file), mode="lease").run(ask("k-1"), work)
    gate: AsyncGate[Any] = AsyncGate(async_store_of(file), mode="lease")
    done_awaited = await gate.run(ask("k-2"), work_awaited)

    assert done.response.body == b"[7,[7],7,7,7,7,7]"
    assert done_awaited.response.body == b"[7,7,7,7,7,[7],7,7,7,7,7]"
    assert len(calls) == 6 + 3 + 6


def test_what_can_be_awaited_and_was_made_counts_as_made(file: Place) -> None:
    made: list[str] = []

    def book(key: str) -> Booking:
        made.append(key)
        return Booking()

    gate = Gate(store_of(file), mode="lease")
    for _ in range(2):
        with pytest.raises(ConfigError, match="'booking' was made, but its result was not"):
            gate.run(ask(), lambda passage: Response.json(200, passage.once("booking", book)))

    assert len(made) == 1
