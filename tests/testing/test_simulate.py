"""Simulating against a receiver of one's own, as users' tests would, and how providers persist."""

import asyncio
import doctest
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import pytest

import mailonce.testing
from mailonce.errors import ConfigError
from mailonce.testing import (
    PlanOptions,
    SimulationPace,
    SimulationReport,
    make_plan,
    make_simulator,
    simulate,
)

NOW_S = 1_767_225_600
EAGER = SimulationPace(rate=5000, time_scale=1e9)


class Request(NamedTuple):
    """What reached the receiver."""

    target: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Request, int], int]


@dataclass
class Receiver:
    """A user's own endpoint. `answer` gets a request and how often its body came before."""

    answer: Answer
    chunked: bool = False
    url: str = ""
    requests: list[Request] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().strip().split("\r\n")
                headers = {n.lower(): v.strip() for n, _, v in (x.partition(":") for x in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                request = Request(first.split(" ")[1], headers, body)
                before = sum(one.body == body for one in self.requests)
                self.requests.append(request)
                writer.write(self._answer(self.answer(request, before)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, code: int) -> bytes:
        head = f"HTTP/1.1 {code} So\r\n".encode()
        if code == 204:
            return head + b"\r\n"
        if self.chunked:
            return head + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        return head + b"Content-Length: 2\r\n\r\nok"


@asynccontextmanager
async def receiving(answer: Answer, *, chunked: bool = False) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer, chunked)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        receiver.url = f"http://127.0.0.1:{port}/hooks/mail"
        yield receiver


async def play(
    name: str, receiver: Receiver, options: PlanOptions, pace: SimulationPace = EAGER
) -> SimulationReport:
    simulator = make_simulator(name, to=receiver.url)
    plan = make_plan(simulator, options, now_s=int(time.time()))
    return await simulate(simulator, plan, now_s=time.time, pace=pace)


async def test_a_users_own_handler_is_proven_to_count_each_event_once() -> None:
    """The whole use: a handler, a storm against it, and what must be true afterwards."""
    counted: dict[str, str] = {}

    def handler(request: Request, before: int) -> int:
        del before
        for event in orjson.loads(request.body):
            counted[event["sg_event_id"]] = event["event"]
        return 200

    async with receiving(handler) as receiver:
        report = await play(
            "sendgrid", receiver, PlanOptions(events=60, duplicates=0.3, shuffle=True, seed="mine")
        )

    assert report.untold == []
    assert set(counted) == {one.id for one in report.happened}
    assert len(receiver.requests) == report.posts == report.acknowledged


async def test_what_fails_at_first_is_sent_again_until_it_is_acknowledged() -> None:
    async with receiving(lambda _request, before: 500 if before < 2 else 200) as receiver:
        report = await play("postmark", receiver, PlanOptions(events=10))

    assert (report.acknowledged, report.gave_up, report.attempts) == (10, 0, 30)
    assert report.codes == {500: 20, 200: 10}


async def test_a_provider_gives_up_after_its_last_wait() -> None:
    async with receiving(lambda _request, _before: 503) as receiver:
        report = await play("mailgun", receiver, PlanOptions(events=2))

    assert (report.acknowledged, report.gave_up) == (0, 2)
    assert report.attempts == 2 * (1 + 6)
    assert len(report.untold) == 2


async def test_without_retries_one_failure_is_the_end() -> None:
    async with receiving(lambda _request, _before: 503) as receiver:
        report = await play(
            "mailgun", receiver, PlanOptions(events=3), SimulationPace(retries=False)
        )

    assert (report.gave_up, report.attempts) == (3, 3)


@pytest.mark.parametrize(
    ("name", "code", "attempts"),
    [
        ("ses", 401, 1),
        ("ses", 500, 4),
        ("mailgun", 406, 1),
        ("mailgun", 401, 7),
        ("postmark", 401, 1),
        ("postmark", 429, 7),
        ("standardwebhooks", 410, 1),
        ("standardwebhooks", 404, 10),
        ("brevo", 500, 1),
        ("brevo", 429, 5),
        ("eventbridge", 400, 1),
        ("eventbridge", 401, 29),
        ("mailwebhook", 400, 1),
        ("mailwebhook", 409, 6),
    ],
)
async def test_each_provider_has_its_own_idea_of_what_is_final(
    name: str, code: int, attempts: int
) -> None:
    async with receiving(lambda _request, _before: code) as receiver:
        report = await play(name, receiver, PlanOptions(events=1))

    assert report.attempts == attempts
    assert (report.refused, report.gave_up) == ((1, 0) if attempts == 1 else (0, 1))


async def test_a_retry_is_signed_anew_only_where_the_provider_does_so() -> None:
    clock = iter(range(NOW_S, NOW_S + 1000))
    kept: dict[str, list[Request]] = {}
    for name in ("sesmetric", "sendgrid"):
        async with receiving(lambda _request, before: 500 if before < 2 else 200) as receiver:
            simulator = make_simulator(name, to=receiver.url)
            plan = make_plan(simulator, PlanOptions(events=1), now_s=NOW_S)
            await simulate(simulator, plan, now_s=lambda: next(clock), pace=EAGER)
        kept[name] = receiver.requests

    assert [len(requests) for requests in kept.values()] == [3, 3]
    assert len({one.headers["x-sesmetric-timestamp"] for one in kept["sesmetric"]}) == 3
    assert len({str(one.headers) for one in kept["sendgrid"]}) == 1


async def test_a_damaged_post_is_sent_once_and_told_unharmed_beside() -> None:
    def refuse_strangers(request: Request, before: int) -> int:
        del before
        return 200 if request.headers["x-sm-signature"] in honest else 401

    async with receiving(refuse_strangers) as receiver:
        simulator = make_simulator("sesmetric-body", to=receiver.url)
        options = PlanOptions(events=20, duplicates=0.5, corrupt=0.25, shuffle=True)
        plan = make_plan(simulator, options, now_s=NOW_S)
        bodies = {simulator.post([one], now_s=0).body for one in plan.happened}
        honest = {simulator.post([one], now_s=0).headers["X-SM-Signature"] for one in plan.happened}
        report = await simulate(simulator, plan, now_s=time.time, pace=EAGER)

    strange = [one for one in receiver.requests if one.body not in bodies]
    assert report.untold == []
    assert len(strange) == report.corrupted == 6
    assert {len(one.body) for one in strange} <= {len(one) for one in bodies}
    assert report.harmed <= set(report.happened)


async def test_a_receiver_that_is_not_there_is_no_answer() -> None:
    simulator = make_simulator("ses", to="http://127.0.0.1:9/in/x")
    plan = make_plan(simulator, PlanOptions(events=2), now_s=NOW_S)

    report = await simulate(simulator, plan, now_s=time.time, pace=EAGER)

    assert report.codes == {0: 8}
    assert report.gave_up == 2


@pytest.mark.parametrize("code", [200, 204])
@pytest.mark.parametrize("chunked", [False, True])
async def test_answers_are_read_however_they_end(code: int, *, chunked: bool) -> None:
    async with receiving(lambda _request, _before: code, chunked=chunked) as receiver:
        report = await play("sesmetric", receiver, PlanOptions(events=30))

    assert report.acknowledged == 30
    assert report.codes == {code: 30}


async def test_no_more_is_posted_than_the_rate_allows() -> None:
    began = time.monotonic()
    async with receiving(lambda _request, before: 500 if before < 1 else 200) as receiver:
        report = await play(
            "postmark", receiver, PlanOptions(events=15), SimulationPace(rate=100, time_scale=1e9)
        )

    # Retries count: thirty attempts at a hundred a second, but for what may come at once.
    assert report.attempts == 30
    assert time.monotonic() - began > 0.25


async def test_path_and_query_are_added_to_the_url() -> None:
    async with receiving(lambda _request, _before: 200) as receiver:
        simulator = make_simulator("elasticemail", to=receiver.url)
        plan = make_plan(simulator, PlanOptions(events=1), now_s=NOW_S)
        await simulate(simulator, plan, now_s=time.time, pace=EAGER)

    (request,) = receiver.requests
    assert request.target.startswith(f"/hooks/mail/{simulator.settings()['token']}?transaction=")


def test_the_same_wish_makes_the_same_plan_and_tells_everything() -> None:
    simulator = make_simulator("sendgrid")
    options = PlanOptions(events=100, duplicates=0.3, corrupt=0.05, shuffle=True, seed="x")
    plan = make_plan(simulator, options, now_s=NOW_S)
    happenings = [one for number in plan.order for one in plan.calls[number].happenings]

    assert plan == make_plan(simulator, options, now_s=NOW_S)
    assert plan != make_plan(simulator, options, now_s=NOW_S + 1)
    assert set(happenings) == set(plan.happened)
    assert len(set(plan.happened)) == 100
    assert 115 <= len(happenings) <= 160
    assert sum(call.damaged for call in plan.calls) >= 1


def test_a_plan_takes_the_time_as_python_gives_it() -> None:
    simulator = make_simulator("sendgrid")
    options = PlanOptions(events=5)

    plan = make_plan(simulator, options, now_s=NOW_S + 0.9)

    assert plan == make_plan(simulator, options, now_s=NOW_S)


async def test_a_time_and_a_clock_are_told_apart(subtests: pytest.Subtests) -> None:
    simulator = make_simulator("sendgrid", to="http://127.0.0.1:9/hooks")
    wrong: list[Any] = [time.time, "1767225600", None, float("nan"), float("inf"), -1, True]
    for now_s in wrong:
        with subtests.test(repr(now_s)), pytest.raises(ConfigError, match=r"now_s=time\.time\(\)"):
            make_plan(simulator, PlanOptions(events=1), now_s=now_s)
    plan = make_plan(simulator, PlanOptions(events=1), now_s=NOW_S)
    moment: Any = time.time()
    with pytest.raises(ConfigError, match=r"write the function: now_s=time\.time$"):
        await simulate(simulator, plan, now_s=moment)


def test_options_that_make_no_plan_are_refused(subtests: pytest.Subtests) -> None:
    wrong: list[tuple[str, Any]] = [
        ("events", -1),
        ("events", 2.5),
        ("events", "5"),
        ("events", True),
        ("duplicates", "1"),
        ("duplicates", -0.5),
        ("duplicates", float("nan")),
        ("corrupt", "0.1"),
        ("corrupt", -1),
        ("spread_s", 600),
        ("spread_s", "7200"),
    ]
    for name, value in wrong:
        with subtests.test(f"{name}={value!r}"), pytest.raises(ConfigError, match=f"`{name}` is "):
            PlanOptions(**{name: value})


def test_without_shuffling_things_are_told_in_their_order() -> None:
    simulator = make_simulator("postmark")
    plan = make_plan(simulator, PlanOptions(events=50, duplicates=0.4), now_s=NOW_S)

    happenings = [plan.calls[number].happenings[0] for number in plan.order]

    assert happenings == sorted(happenings, key=plan.happened.index)
    assert len(happenings) > 50


def test_the_example_of_the_package_runs() -> None:
    assert doctest.testmod(mailonce.testing).failed == 0
