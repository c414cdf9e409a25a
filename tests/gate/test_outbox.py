"""Effects that are owed: committed with what wants them, done by a worker, under a stable key."""

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from mailonce.client import AsyncClient, Client
from mailonce.errors import ConfigError, RefusedError
from mailonce.gate import (
    AsyncGate,
    AsyncPassage,
    Gate,
    Outcome,
    Passage,
    Policy,
    Request,
    Response,
    is_final,
)
from mailonce.gate.outbox import REQUEST, AsyncOutbox, Outbox, Owed, Pace
from mailonce.gate.send_outbox import AsyncSendOutbox, SendOutbox
from tests.gate.gates import DONE, ask, async_store_of, store_of
from tests.gate.places import ORDER, Place


def owing(passage: Passage[Any]) -> Response:
    passage.tx.execute(ORDER)
    passage.owe("mail", b"to ann")
    passage.owe("mail", b"to bob", name="mail-bob")
    return DONE


def owing_one(passage: Passage[Any]) -> Response:
    passage.owe("mail", b"x")
    return DONE


def test_what_is_owed_stands_only_if_its_request_does(place: Place) -> None:
    gate = Gate(store_of(place))
    outbox = Outbox(store_of(place), {})

    gate.run(ask("refused"), lambda passage: (owing(passage), Response(422))[1])
    gate.run(ask("failed"), lambda passage: (owing(passage), Response(500))[1])
    none = outbox.counts()["due"]
    for _ in range(3):
        gate.run(ask("done"), owing)

    assert none == 0
    assert outbox.counts()["due"] == 2


def test_an_effect_is_done_once_and_then_no_more(place: Place) -> None:
    seen: list[Owed] = []
    Gate(store_of(place)).run(ask(), owing)
    outbox = Outbox(store_of(place), {"mail": seen.append})

    tried = [outbox.drain(), outbox.drain()]

    assert tried == [2, 0]
    assert [(owed.body, owed.attempt) for owed in seen] == [(b"to ann", 1), (b"to bob", 1)]
    assert len({owed.key for owed in seen}) == 2
    assert outbox.counts() == {"due": 0, "done": 2, "dead": 0}


def test_a_failure_is_tried_again_under_the_same_key_and_then_buried(place: Place) -> None:
    seen: list[Owed] = []

    def fail(owed: Owed) -> None:
        seen.append(owed)
        raise OSError("password in the message")

    Gate(store_of(place)).run(ask(), owing_one)
    outbox = Outbox(store_of(place), {"mail": fail}, pace=Pace(waits_s=(30, 60)))

    outbox.drain()
    at_once = outbox.drain()
    for _ in range(4):
        place.let_outbox_be_due()
        outbox.drain()

    assert at_once == 0
    assert [owed.attempt for owed in seen] == [1, 2, 3]
    assert len({owed.key for owed in seen}) == 1
    assert outbox.counts()["dead"] == 1
    assert place.query("SELECT last_error FROM webhook_outbox") == [("OSError",)]
    assert (outbox.revive(), outbox.drain(), seen[-1].attempt) == (1, 0, 1)


def test_a_worker_that_lost_its_lease_settles_nothing(place: Place) -> None:
    Gate(store_of(place)).run(ask(), owing_one)
    done = Outbox(store_of(place), {"mail": lambda _: None})

    def paused(owed: Owed) -> None:
        place.let_outbox_be_due()
        assert done.drain() == 1
        raise OSError(owed.key)

    Outbox(store_of(place), {"mail": paused}).drain()

    assert done.counts() == {"due": 0, "done": 1, "dead": 0}


def test_what_waits_for_its_turn_is_not_leased(place: Place) -> None:
    """Leased together and done one after the other, the last would lose its lease on the way."""
    calls: Counter[str] = Counter()

    def owing_many(passage: Passage[Any]) -> Response:
        for number in range(4):
            passage.owe("mail", b"x", name=f"mail-{number}")
        return DONE

    def other_worker(owed: Owed) -> None:
        calls[owed.key] += 1

    def slow(owed: Owed) -> None:
        calls[owed.key] += 1
        if len(calls) == 1:
            assert other.drain() == 3

    other = Outbox(store_of(place), {"mail": other_worker})
    Gate(store_of(place)).run(ask(), owing_many)

    Outbox(store_of(place), {"mail": slow}).drain()

    assert sorted(calls.values()) == [1, 1, 1, 1]
    assert other.counts()["done"] == 4


def test_a_worker_that_was_paused_after_its_lease_does_not_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Owed] = []
    Gate(store_of(place)).run(ask(), owing_one)
    outbox = Outbox(store_of(place), {"mail": calls.append}, pace=Pace(lease_s=60))
    clock = iter([0.0, 31.0])
    monkeypatch.setattr("mailonce.gate.outbox.time.monotonic", lambda: next(clock, 100.0))

    outbox.drain()
    monkeypatch.undo()
    early = outbox.drain()
    place.let_outbox_be_due()

    assert (calls, early) == ([], 0)
    assert (outbox.drain(), len(calls)) == (1, 1)


def test_a_topic_without_a_handler_stays_due_and_is_told_once(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    Gate(store_of(place)).run(ask(), owing_one)
    outbox = Outbox(store_of(place), {"receipt": lambda _: None})

    fresh = outbox.drain()
    told_of_fresh = list(caplog.records)
    place.let_outbox_be_due()
    tried = []
    for _ in range(2):
        outbox._next_look = 0
        tried.append(outbox.drain())

    assert (fresh, told_of_fresh, tried) == (0, [], [0, 0])
    assert outbox.counts()["due"] == 1
    assert place.query("SELECT attempts, last_error FROM webhook_outbox") == [(0, None)]
    [told] = [record.getMessage() for record in caplog.records]
    assert told.startswith("effects of the topic 'mail' are due")
    assert told.endswith("Outbox(store, {'mail': function})")


def test_a_handler_that_awaits_is_refused_and_its_effect_is_not_done(place: Place) -> None:
    async def send(owed: Owed) -> None: ...

    Gate(store_of(place)).run(ask(), owing_one)
    with pytest.raises(ConfigError, match="AsyncOutbox"):
        Outbox(store_of(place), {"mail": send})
    # No coroutine function, but it gives a coroutine.
    outbox = Outbox(store_of(place), {"mail": lambda owed: send(owed)})  # noqa: PLW0108
    outbox.drain()

    assert outbox.counts() == {"due": 1, "done": 0, "dead": 0}


async def test_stores_and_clients_of_the_other_kind_are_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="a blocking store"):
        Outbox(async_store_of(place), {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an async store"):
        AsyncOutbox(store_of(place), {})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs a Client"):
        SendOutbox(store_of(place), AsyncClient("http://127.0.0.1:1", "key"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs an AsyncClient"):
        AsyncSendOutbox(async_store_of(place), Client("http://127.0.0.1:1", "key"))  # type: ignore[arg-type]


def test_workers_with_different_topics_leave_each_other_their_effects(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[str, str, int]] = []

    def owing_three(passage: Passage[Any]) -> Response:
        for topic in ("mail", 'it\'s "é"', "receipt"):
            passage.owe(topic, b"x")
        return DONE

    def worker(*topics: str) -> Outbox[Any]:
        name = "+".join(topics)
        handlers = {
            topic: lambda owed: seen.append((name, owed.topic, owed.attempt)) for topic in topics
        }
        return Outbox(store_of(place), handlers)

    Gate(store_of(place)).run(ask(), owing_three)
    workers = [worker(), worker("receipt"), worker('it\'s "é"', "mail")]

    tried = [outbox.drain() for outbox in workers]

    assert tried == [0, 1, 2]
    assert seen == [
        ("receipt", "receipt", 1),
        ('it\'s "é"+mail', "mail", 1),
        ('it\'s "é"+mail', 'it\'s "é"', 1),
    ]
    assert workers[0].counts() == {"due": 0, "done": 3, "dead": 0}
    assert caplog.records == []


def test_pruning_takes_only_what_was_done_long_ago(place: Place) -> None:
    Gate(store_of(place)).run(ask(), owing)
    outbox = Outbox(store_of(place), {"mail": lambda _: None})
    outbox.drain()
    fresh = outbox.prune()
    place.query("UPDATE webhook_outbox SET done_at = '2001-01-01 00:00:00.000'")

    assert (fresh, outbox.prune(), outbox.counts()["done"]) == (0, 2, 0)


def work(passage: Passage[Any], request: Request) -> Response:
    passage.tx.execute(ORDER)
    return Response(201, request.body, (("content-type", "text/plain"),))


def test_a_deferred_request_is_finished_by_a_worker_and_then_replayed(place: Place) -> None:
    gate = Gate(store_of(place))
    request = ask(body=b"hello\nthere", method="POST", path="/hooks")

    answers = [gate.defer(request), gate.defer(request)]
    other = gate.defer(ask(body=b"other", method="POST", path="/hooks"))
    outbox = Outbox(store_of(place), {REQUEST: gate.finisher(work)})
    tried = [outbox.drain(), outbox.drain()]
    after = gate.defer(request)

    assert {answer.response.status for answer in answers} == {202}
    assert answers[1].response.header("x-mailonce-gate") == "processing"
    assert answers[1].response.header("retry-after")
    assert other.outcome is Outcome.CONFLICT
    assert tried == [1, 0]
    assert (after.outcome, after.response.body) == (Outcome.REPLAYED, b"hello\nthere")
    assert place.orders() == 1


def test_a_deferred_request_that_was_given_up_is_taken_up_by_its_next_copy(place: Place) -> None:
    gate = Gate(store_of(place))
    never = Outbox(
        store_of(place),
        {REQUEST: gate.finisher(lambda _p, _r: Response(503))},
        pace=Pace(waits_s=()),
    )
    gate.defer(ask())
    never.drain()
    buried = never.counts()["dead"]

    gate.defer(ask())
    Outbox(store_of(place), {REQUEST: gate.finisher(work)}).drain()

    assert buried == 1
    assert gate.defer(ask()).outcome is Outcome.REPLAYED
    assert place.orders() == 1


def test_a_redirect_that_was_recorded_is_not_done_again_by_a_redelivery(place: Place) -> None:
    gate = Gate(store_of(place), Policy(terminal=lambda status: 200 <= status < 400))

    def redirect(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        return Response(303, b"", (("location", "/done"),))

    gate.run(ask(), redirect)
    again = gate.run(redelivered(ask()), redirect)

    assert again.outcome is Outcome.REPLAYED
    assert place.orders() == 1


def test_a_redirect_that_is_not_recorded_is_told(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(store_of(place))

    def redirect(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        return Response(303, b"", (("location", "/done"),))

    answer = gate.run(ask(), redirect)

    assert (answer.response.status, place.orders()) == (303, 0)
    assert "a handler answered 303, which is not recorded" in caplog.text


def redelivered(request: Request) -> Request:
    return replace(request, headers=(*request.headers, ("x-mailonce-redelivery", "1")))


def test_a_redelivery_of_a_deferred_request_that_was_refused_is_run(place: Place) -> None:
    gate = Gate(store_of(place), Policy(terminal=is_final))
    gate.defer(ask())
    Outbox(store_of(place), {REQUEST: gate.finisher(lambda _p, _r: Response(422))}).drain()
    refused = gate.defer(ask())

    promised = gate.defer(redelivered(ask()))
    tried = Outbox(store_of(place), {REQUEST: gate.finisher(work)}).drain()

    assert refused.response.status == 422
    assert (promised.outcome, tried) == (Outcome.ACCEPTED, 1)
    assert gate.defer(ask()).response.status == 201
    assert place.orders() == 1


def test_a_deferred_request_whose_key_was_forgotten_is_run_with_its_new_content(
    place: Place,
) -> None:
    """The window of keys is shorter than that of the outbox."""
    gate = Gate(store_of(place), Policy(window_s=0.01))
    outbox = Outbox(store_of(place), {REQUEST: gate.finisher(work)})
    gate.defer(ask(body=b"old"))
    outbox.drain()
    time.sleep(0.05)

    promised = gate.defer(ask(body=b"new"))
    tried = outbox.drain()

    assert (promised.outcome, tried) == (Outcome.ACCEPTED, 1)
    assert place.orders() == 2


async def test_an_awaited_worker_does_alike(place: Place) -> None:
    store = async_store_of(place)
    gate = AsyncGate(store)
    seen = []

    async def owing(passage: AsyncPassage[Any]) -> Response:
        await passage.owe("mail", b"to ann")
        return DONE

    async def send(owed: Owed) -> None:
        seen.append(owed.body)

    async def finish(passage: AsyncPassage[Any], request: Request) -> Response:
        await passage.tx.exec_driver_sql(ORDER)
        return Response(200, request.body)

    await gate.run(ask("one"), owing)
    await gate.defer(ask("two", b"later"))
    other = await AsyncOutbox(store, {"other": send}).drain()
    outbox = AsyncOutbox(store, {"mail": send, REQUEST: gate.finisher(finish)})
    tried = [await outbox.drain(), await outbox.drain()]

    assert (other, tried) == (0, [2, 0])
    assert seen == [b"to ann"]
    assert (await gate.defer(ask("two", b"later"))).response.body == b"later"
    assert (await outbox.counts())["done"] == 2
    assert place.orders() == 1


def test_a_worker_that_meets_another_copy_comes_again_soon_and_has_lost_no_attempt(
    place: Place,
) -> None:
    gate = Gate(store_of(place), mode="lease")
    assert gate.defer(ask()).outcome is Outcome.ACCEPTED
    other = gate.enter(ask())
    assert isinstance(other, Passage)
    outbox = Outbox(store_of(place), {REQUEST: gate.finisher(lambda _, __: DONE)})

    for _ in range(12):
        place.let_outbox_be_due()
        assert outbox.drain() == 0
    row = place.query("SELECT status, attempts, last_error FROM webhook_outbox")
    other.abandon()
    place.let_outbox_be_due()
    outbox.drain()

    assert row == [("due", 0, None)]
    assert outbox.counts() == {"due": 0, "done": 1, "dead": 0}


async def test_a_worker_counts_what_took_effect_and_not_what_failed(place: Place) -> None:
    def fail_for_bob(owed: Owed) -> None:
        if owed.body == b"to bob":
            raise OSError

    async def fail_for_bob_awaited(owed: Owed) -> None:
        fail_for_bob(owed)

    def lose_the_lease(owed: Owed) -> None:
        place.let_outbox_be_due()
        assert done.drain() == 1, owed

    done = Outbox(store_of(place), {"mail": lambda _: None})
    gate = Gate(store_of(place))

    gate.run(ask("one"), owing)
    counted = [Outbox(store_of(place), {"mail": fail_for_bob}).drain()]
    gate.run(ask("two"), owing)
    counted.append(await AsyncOutbox(async_store_of(place), {"mail": fail_for_bob_awaited}).drain())
    place.query("DELETE FROM webhook_outbox")
    gate.run(ask("three"), owing_one)
    counted.append(Outbox(store_of(place), {"mail": lose_the_lease}).drain())

    assert counted == [1, 1, 0]
    assert done.counts() == {"due": 0, "done": 1, "dead": 0}


async def test_a_handler_whose_table_is_missing_is_told_which_one_and_what_to_do(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    missing = "INSERT INTO parcels (name) VALUES ('ann@example.net')"

    def work(passage: Passage[Any], _: Request) -> Response:
        passage.tx.execute(missing)
        return DONE

    async def work_awaited(passage: AsyncPassage[Any], _: Request) -> Response:
        await passage.tx.exec_driver_sql(missing)
        return DONE

    gate, awaited = Gate(store_of(place)), AsyncGate(async_store_of(place))
    gate.defer(ask())
    Outbox(store_of(place), {REQUEST: gate.finisher(work)}).drain()
    place.let_outbox_be_due()
    outbox = AsyncOutbox(async_store_of(place), {REQUEST: awaited.finisher(work_awaited)})
    await outbox.drain()

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert all("has no table 'parcels'; make it there" in one for one in told)
    assert all("ann@" not in one and "INSERT" not in one for one in told)
    [(kept,)] = place.query("SELECT last_error FROM webhook_outbox")
    assert "has no table 'parcels'" in kept


def test_a_failure_is_logged_without_addresses_and_words_of_others(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    advice = "`to` is 'ann@example.net, bo@example.net'; write it as name@example.com"
    failures = [OSError("password"), RefusedError(advice)]

    def fail(_: Owed) -> None:
        raise failures[len(caplog.records)]

    Gate(store_of(place)).run(ask(), owing_one)
    outbox = Outbox(store_of(place), {"mail": fail}, pace=Pace(waits_s=(30,)))

    for _ in range(2):
        outbox.drain()
        place.let_outbox_be_due()

    raised = fail.__code__.co_firstlineno + 1
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        f"OSError at test_outbox.py:{raised}, in fail; tried again in 30 s",
        (
            "RefusedError: `to` is '[address] [address]'; write it as name@example.com; "
            "given up; see last_error"
        ),
    ]


@pytest.mark.parametrize("kind", [Gate, AsyncGate])
def test_work_that_takes_no_request_is_refused_at_once(place: Place, kind: Any) -> None:
    gate = kind(store_of(place) if kind is Gate else async_store_of(place))

    with pytest.raises(ConfigError, match=r"called with \(passage, request\)"):
        gate.finisher(lambda passage: passage)
