"""Requests that are driven without tasks: each is answered once, whatever it waits for."""

import asyncio
from typing import Any

import pytest

from mailonce.errors import ParseError, UnavailableError
from mailonce.pipeline.record import FullError, Recorder
from mailonce.send.drive_submissions import Submissions, SubmitResult
from mailonce.send.ledger_look import LedgerLook
from mailonce.send.submit import KeyReuseError, SubmitFlow, SubmitStep
from tests.core.sends.send_requests import make_request
from tests.send.office import Office


class Caller:
    """Remembers its answers, and waits in a task where it must."""

    def __init__(self, submissions: Submissions) -> None:
        self._submissions = submissions
        self.answers: list[SubmitResult] = []
        self.tasks: list[asyncio.Task[None]] = []

    def answer(self, result: SubmitResult) -> None:
        self.answers.append(result)

    def wait(self, flow: SubmitFlow, step: SubmitStep) -> None:
        async def drive() -> None:
            try:
                self.answer(await self._submissions.drive(flow, step))
            except Exception as error:
                self.answer(error)

        self.tasks.append(asyncio.create_task(drive()))


async def submit_together(office: Office, *requests: Any) -> list[Caller]:
    """Begin all of them in one turn of the loop."""
    submissions = office.submissions()
    callers = [Caller(submissions) for _ in requests]
    for caller, request in zip(callers, requests, strict=True):
        submissions.begin("default", request, caller, by="test")
    await office.until_true(lambda: all(caller.answers for caller in callers))
    assert {len(caller.answers) for caller in callers} == {1}
    return callers


async def test_of_twenty_copies_at_once_one_is_new(office: Office) -> None:
    await office.add_sender()

    callers = await submit_together(office, *[make_request()] * 20)

    sends = [one for caller in callers for one in caller.answers[0]]  # type: ignore[union-attr]
    assert len({one.send.id for one in sends}) == 1
    assert [one.is_replayed for one in sends].count(False) == 1
    assert len(await office.rows()) == 1


async def test_other_words_under_one_key_are_refused_at_the_same_moment(office: Office) -> None:
    await office.add_sender()

    callers = await submit_together(office, make_request(), make_request(text="Other"))

    kinds = [type(caller.answers[0]) for caller in callers]
    assert sorted(kinds, key=str) == sorted([list, KeyReuseError], key=str)


async def test_what_waits_for_nobody_has_no_task(office: Office) -> None:
    await office.add_sender()
    await office.time.now_ms()

    [plain, wrong] = await submit_together(
        office, make_request("ann@example.com"), make_request("no address")
    )

    assert (plain.tasks, wrong.tasks) == ([], [])
    assert isinstance(wrong.answers[0], ParseError)


async def test_a_full_queue_and_a_lost_database_are_answers(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.add_sender()
    await office.time.now_ms()

    def full(*_: Any) -> None:
        raise FullError("full")

    async def lost(*_: Any) -> Any:
        raise UnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "submit", full)
        [caller] = await submit_together(office, make_request())
        assert isinstance(caller.answers[0], FullError)
    with monkeypatch.context() as patch:
        patch.setattr(LedgerLook, "_read", lost)
        [caller] = await submit_together(office, make_request())
        assert isinstance(caller.answers[0], UnavailableError)

    [caller] = await submit_together(office, make_request())
    assert isinstance(caller.answers[0], list)
