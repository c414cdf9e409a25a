"""A send leaves once: what is accepted, refused, tried again, and what stays unknown."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import update

from mailonce.core.sends.send_key import given_key, uuid_text
from mailonce.core.sends.send_request import SendPriority
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    Found,
    NotSent,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.core.work.breaker import BreakerRule
from mailonce.edge.cli.sends import next_words
from mailonce.errors import UnavailableError
from mailonce.send import transmit
from mailonce.store.schema.send_tables import SENDS
from mailonce.store.sends.flight_batches import FlightBatches
from mailonce.views.sends import show_send
from tests.core.sends.send_requests import make_recipient, make_request
from tests.send.office import OK, Office

LATER = TryAgain(reason="429 slow down")
WHO_KNOWS = Unknown(reason="no answer in time")
NO = NotSent(reason="550 no such mailbox")


async def set_back(office: Office, seconds: float) -> None:
    """Let time pass for all sends: what was to come later is due by so much earlier."""
    ms = int(seconds * 1000)
    row = SENDS.c
    await office.database.write(
        lambda tx: (
            tx.execute(
                update(SENDS).values(
                    due_ms=row.due_ms - ms,
                    deadline_ms=row.deadline_ms - ms,
                    flight_ms=row.flight_ms - ms,
                )
            )
            and None
        )
    )
    if office.worker is not None:
        office.worker.wake(["snr_out", "snr_spare"])


async def test_a_mail_is_sent_once_and_its_outcome_kept(office: Office) -> None:
    await office.add_sender()
    office.start()

    [sent] = await office.submit(make_request())
    await office.until("accepted")

    [row] = await office.rows()
    assert office.provider.calls == [uuid_text(row["key"])]
    assert (row["message_id"], row["tries"], row["flight"]) == ("m-1", 1, 1)
    assert await office.steps() == [("call", "accepted")]
    assert not sent.is_replayed


async def test_a_request_that_is_repeated_finds_the_same_send(office: Office) -> None:
    await office.add_sender()
    office.start()
    [first] = await office.submit(make_request())
    await office.until("accepted")

    [again] = await office.submit(make_request())

    assert (again.is_replayed, again.send.id) == (True, first.send.id)
    assert again.send.message_id == "m-1"
    assert len(office.provider.calls) == 1


async def test_what_was_not_sent_is_tried_again_until_it_is(office: Office) -> None:
    await office.add_sender()
    office.provider.answers = lambda call: OK if call == 3 else LATER
    office.start()

    await office.submit(make_request())
    await office.until("accepted")

    assert len(office.provider.calls) == 3
    assert len({*office.provider.calls}) == 1
    assert await office.steps() == [("call", "try_again")] * 2 + [("call", "accepted")]


async def test_what_is_refused_is_not_tried_again(office: Office) -> None:
    await office.add_sender()
    office.provider.answers = lambda _: NO
    office.start()

    await office.submit(make_request())
    await office.until("refused")

    [row] = await office.rows()
    assert (len(office.provider.calls), row["error"]) == (1, "550 no such mailbox")


async def test_attempts_come_to_an_end(office: Office) -> None:
    await office.add_sender()
    office.provider.answers = lambda _: LATER
    office.start()

    await office.submit(make_request())
    await office.until("refused")

    assert len(office.provider.calls) == 4


async def test_an_unknown_outcome_is_waited_for_and_never_repeated(office: Office) -> None:
    await office.add_sender()
    await office.add_sender("spare")
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    for seconds in (30, 600, 3_600, 80_000):
        await set_back(office, seconds)
        await office.until_true(lambda: office.worker is not None)
    await asyncio.sleep(0.2)

    assert await office.states() == ["unknown"]
    assert len(office.provider.calls) == 1


async def test_at_the_deadline_a_person_is_asked(office: Office) -> None:
    await office.add_sender()
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await set_back(office, 86_400)

    async def waits_for_person() -> bool:
        return [row["state"] for row in await office.rows()] == [3]

    await office.until_true(waits_for_person)
    [row] = await office.rows()
    assert (row["done_ms"], row["error"]) == (None, "nothing tells whether it was sent")
    assert len(office.provider.calls) == 1


async def test_a_sender_that_may_send_twice_does_so_at_the_deadline_and_says_so(
    office: Office,
) -> None:
    await office.add_sender(mode="at_least_once")
    office.provider.answers = lambda call: OK if call == 2 else WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await set_back(office, 86_400)
    await office.until("accepted")

    [row] = await office.rows()
    assert (len(office.provider.calls), row["is_resent"]) == (2, True)


async def test_the_providers_own_key_repeats_the_same_bytes_in_its_window(office: Office) -> None:
    await office.add_sender(provider="resend")
    office.provider.answers = lambda call: OK if call == 2 else WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await set_back(office, 5)
    await office.until("accepted")

    first, second = office.provider.requests
    assert first == second
    assert await office.steps() == [("call", "unknown"), ("repeat", "accepted")]
    [row] = await office.rows()
    assert (row["tries"], row["message_id"]) == (1, "m-1")


async def test_a_refused_repetition_leaves_the_send_unknown(office: Office) -> None:
    await office.add_sender(provider="resend")
    office.provider.answers = lambda call: WHO_KNOWS if call == 1 else NO
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await set_back(office, 5)
    await office.until_true(lambda: len(office.provider.calls) == 2)
    await office.until("unknown")

    assert await office.steps() == [("call", "unknown"), ("repeat", "not_sent")]


async def test_beyond_its_window_the_providers_key_is_not_used(office: Office) -> None:
    await office.add_sender(provider="resend")
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await set_back(office, 20 * 3600)

    async def waits() -> bool:
        [row] = await office.rows()
        return bool(row["attempts"] >= 2 and row["state"] == 0)

    await office.until_true(waits)
    assert len(office.provider.calls) == 1


async def test_another_account_does_not_repeat_the_call(office: Office) -> None:
    await office.add_sender(provider="resend")
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await office.add_sender(provider="resend", secrets=("another account",))
    await set_back(office, 5)

    async def waits() -> bool:
        [row] = await office.rows()
        return bool(row["attempts"] >= 2 and row["state"] == 0)

    await office.until_true(waits)
    assert len(office.provider.calls) == 1


async def test_a_lookup_settles_what_it_finds_and_nothing_else(office: Office) -> None:
    await office.add_sender(provider="postmark")
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()
    await office.submit(make_request())
    await office.until("unknown")

    await set_back(office, 30)

    async def looked_up() -> bool:
        return len(await office.steps()) == 2

    await office.until_true(looked_up)
    office.provider.lookups = lambda: Found(message_id="m-9", evidence="search")
    await set_back(office, 90)
    await office.until("accepted")

    [row] = await office.rows()
    assert (row["message_id"], len(office.provider.calls)) == ("m-9", 1)
    assert await office.steps() == [
        ("call", "unknown"), ("lookup", "not_found"), ("lookup", "found")
    ]  # fmt: skip


async def test_another_sender_takes_what_the_first_did_certainly_not_send(office: Office) -> None:
    await office.add_sender(next_sender="spare")
    await office.add_sender("spare", provider="postmark")
    office.provider.answers = lambda call: NO if call == 1 else OK
    office.start()

    await office.submit(make_request(sender="out"))
    await office.until("accepted")

    assert office.provider.by == ["out", "spare"]


async def test_no_other_sender_takes_what_may_have_been_sent(office: Office) -> None:
    await office.add_sender(next_sender="spare")
    await office.add_sender("spare", provider="postmark")
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()

    await office.submit(make_request(sender="out"))
    await office.until("unknown")
    await set_back(office, 4_000)
    await asyncio.sleep(0.1)

    assert office.provider.by == ["out"]


async def test_a_process_that_was_paused_before_the_first_byte_gives_the_send_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.add_sender()
    monkeypatch.setattr(transmit, "START_S_MAX", -1.0)
    office.start()

    await office.submit(make_request())

    async def given_back() -> bool:
        [row] = await office.rows()
        return bool(row["attempts"] >= 2)

    await office.until_true(given_back)
    assert office.provider.calls == []
    monkeypatch.setattr(transmit, "START_S_MAX", 2.0)
    await office.until("accepted")
    [row] = await office.rows()
    assert (len(office.provider.calls), row["tries"]) == (1, 1)


async def test_an_answer_that_comes_after_the_lease_still_counts(office: Office) -> None:
    await office.add_sender(timeout_s=0.5)
    answered: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()

    async def late() -> SendOutcome:
        while True:
            try:
                return await asyncio.shield(answered)
            except asyncio.CancelledError:
                continue

    office.provider.answers = lambda _: late()
    office.start()
    await office.submit(make_request())
    await office.until_true(lambda: office.provider.calls)
    # The lease runs out, as after a pause of the process, and the send is unknown.
    await office.database.write(lambda tx: tx.execute(update(SENDS).values(lease_ms=1)) and None)
    await office.until("unknown")

    answered.set_result(Accepted(message_id="late", evidence="200"))
    await office.until("accepted")

    [row] = await office.rows()
    assert (row["message_id"], len(office.provider.calls)) == ("late", 1)


async def test_an_outcome_is_written_once_the_database_is_back(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.add_sender()
    end, failures = FlightBatches.end, iter(range(3))

    async def fail_then_end(self: FlightBatches, *given: Any, **named: Any) -> Any:
        if next(failures, None) is not None:
            raise UnavailableError("read-only")
        return await end(self, *given, **named)

    monkeypatch.setattr(FlightBatches, "end", fail_then_end)
    office.start(lease_s=30)

    await office.submit(make_request())
    await office.until("accepted")

    assert len(office.provider.calls) == 1


async def test_a_sender_calls_for_the_next_mail_while_an_outcome_is_written(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.add_sender(concurrency=1)
    end, may_end = FlightBatches.end, asyncio.Event()

    async def end_later(self: FlightBatches, *given: Any, **named: Any) -> Any:
        await may_end.wait()
        return await end(self, *given, **named)

    monkeypatch.setattr(FlightBatches, "end", end_later)
    office.start(lease_s=30)

    await office.submit(make_request("ann@example.com", "bob@example.com", "eve@example.com"))
    await office.until_true(lambda: len(office.provider.calls) == 2)
    # The third waits: no more outcomes are unwritten than a sender makes calls at once.
    assert sorted(await office.states()) == ["in_flight", "in_flight", "pending"]
    may_end.set()
    await office.until("accepted")

    assert len({*office.provider.calls}) == len(office.provider.calls) == 3


async def test_a_mark_that_fails_lets_nothing_leave(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.add_sender()
    begin, failures = FlightBatches.begin, iter(range(1))

    async def begin_and_fail(self: FlightBatches, *given: Any, **named: Any) -> Any:
        done = await begin(self, *given, **named)
        if next(failures, None) is not None:
            # It is committed, and nobody hears so.
            raise UnavailableError("the connection broke")
        return done

    monkeypatch.setattr(FlightBatches, "begin", begin_and_fail)
    office.start(lease_s=30)

    await office.submit(make_request())
    await office.until("accepted")

    [row] = await office.rows()
    assert (len(office.provider.calls), row["tries"]) == (1, 1)
    assert row["attempts"] == 2


async def test_a_worker_that_is_stopped_leaves_what_it_called_unknown(office: Office) -> None:
    await office.add_sender(timeout_s=60)
    forever: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
    office.provider.answers = lambda _: forever
    worker = office.start(drain_s=0.1, lease_s=60)
    await office.submit(make_request())
    await office.until_true(lambda: office.provider.calls)

    await worker.stop()
    office.worker = None
    await office.book.close(timeout_s=5)

    assert await office.states() == ["unknown"]
    assert await office.steps() == [("call", "unknown")]


async def test_a_code_does_not_wait_for_newsletters(office: Office) -> None:
    await office.add_sender(concurrency=4)
    gate = asyncio.Event()

    async def when_open() -> SendOutcome:
        await gate.wait()
        return OK

    def answer(_: int) -> Any:
        raw = office.provider.requests[-1]
        return OK if b"code@example.com" in getattr(raw, "message", b"") else when_open()

    office.provider.answers = answer
    office.start(lease_s=60)
    await office.submit(make_request(*(f"a{n}@example.com" for n in range(40)), subject="News"))
    await office.until_true(lambda: len(office.provider.calls) == 3)

    await office.submit(
        make_request("code@example.com", key=given_key("code"), priority=SendPriority.HIGH)
    )

    async def code_sent() -> bool:
        return "accepted" in await office.states()

    await office.until_true(code_sent)
    assert len(office.provider.calls) == 4
    gate.set()
    await office.until("accepted")
    assert len(office.provider.calls) == 41


async def test_a_provider_that_asks_for_a_pause_gets_it_for_all_its_mail(office: Office) -> None:
    await office.add_sender(waits_s=(0.01,) * 5)
    office.provider.answers = lambda call: (
        TryAgain(reason="429", retry_after_ms=3_600_000) if call == 1 else OK
    )
    office.start()
    await office.submit(make_request())
    await office.until_true(lambda: office.provider.calls)

    async def noted() -> bool:
        return bool(await office.steps())

    await office.until_true(noted)
    await office.submit(make_request("bob@example.com", key=given_key("k-2")))
    await asyncio.sleep(0.2)

    assert len(office.provider.calls) == 1


async def test_a_pause_outlasts_the_mail_that_was_told_of_it(office: Office) -> None:
    await office.add_sender(waits_s=())
    office.provider.answers = lambda call: (
        TryAgain(reason="429", retry_after_ms=3_600_000) if call == 1 else OK
    )
    office.start(hold_s=0.3, look_every_s=0.1)
    await office.submit(make_request())
    await office.until("refused")
    # Nothing is due on this sender, for longer than a worker keeps it to itself.
    await asyncio.sleep(1)
    await office.submit(make_request("bob@example.com", key=given_key("k-2")))
    await asyncio.sleep(0.5)

    assert len(office.provider.calls) == 1


async def test_a_sender_that_wants_no_mail_at_all_is_tried_one_mail_at_a_time(
    office: Office,
) -> None:
    await office.add_sender(waits_s=(0.01,) * 3, concurrency=2)
    office.provider.answers = lambda _: NotSent(reason="401", fault=Fault.SENDER)
    office.start(breaker=BreakerRule(failures=2, wait_s=60.0))

    await office.submit(make_request(*(f"a{n}@example.com" for n in range(20))))
    await office.until_true(lambda: len(office.provider.calls) >= 2)
    await asyncio.sleep(0.2)

    assert len(office.provider.calls) <= 4
    assert "refused" not in await office.states()


async def test_mail_that_waits_for_a_sender_that_is_down_says_so(office: Office) -> None:
    """One mail is tried and hangs; the next one is due, and no time can be named for it."""
    await office.add_sender(waits_s=(600.0,))
    never: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
    office.provider.answers = lambda call: LATER if call == 1 else never
    worker = office.start(breaker=BreakerRule(failures=1, wait_s=0.05))
    await office.submit(make_request(key=given_key("first")))
    await office.until_true(worker.endpoints_down)
    await office.submit(make_request(key=given_key("hangs")))
    await office.until_true(lambda: len(office.provider.calls) == 2)
    await office.submit(make_request(key=given_key("waits")))

    known = {
        id_: office.clock.now_ms() + int(s * 1000) for id_, s in worker.endpoints_down().items()
    }
    senders = office.configuration.snapshot.senders
    [first_row, waits_row] = [
        await show_send(office.database, "default", senders, row["id"], down=known)
        for key in ("first", "waits")
        for row in await office.rows()
        if row["send_key"] == key
    ]

    assert next_words(waits_row) == (
        "waits for sender out, which is taken to be down; one mail is tried at a time"
    )
    assert first_row["sender_down"] is False
    assert str(next_words(first_row)).startswith("attempt 2 at 20")


async def test_mail_outlives_wrong_credentials_until_somebody_has_corrected_them(
    office: Office,
) -> None:
    await office.add_sender(waits_s=(0.01,) * 2, concurrency=2)
    office.provider.answers = lambda call: (
        NotSent(reason="401", fault=Fault.SENDER) if call <= 12 else OK
    )
    office.start(breaker=BreakerRule(failures=2, wait_s=0.01, wait_s_max=0.01))

    await office.submit(make_request(*(f"a{n}@example.com" for n in range(3))))
    await office.until("accepted")

    assert "refused" not in [outcome for _, outcome in await office.steps()]
    assert len(office.provider.calls) == 15


async def test_at_its_deadline_a_mail_says_what_kept_it(office: Office) -> None:
    await office.add_sender(waits_s=(0.01,) * 3)
    office.provider.answers = lambda _: NotSent(reason="answered 401", fault=Fault.SENDER)
    office.start(breaker=BreakerRule(failures=2, wait_s=60.0), give_up_every_s=0.05)
    await office.submit(make_request("ann@example.com", "bob@example.com"))

    async def both_were_tried() -> bool:
        return len(await office.steps()) == 2

    await office.until_true(both_were_tried)

    await set_back(office, 3_600)
    await office.until("refused")

    for row in await office.rows():
        assert "answered 401" in row["error"]


async def test_a_mail_that_nobody_tried_in_time_is_not_sent_late(office: Office) -> None:
    await office.add_sender()
    await office.submit(make_request())
    await set_back(office, 3_601)

    office.start()
    await office.until("refused")

    [row] = await office.rows()
    assert (office.provider.calls, row["error"]) == ([], transmit.TOO_LATE)


async def test_a_mail_waits_for_its_time(office: Office) -> None:
    await office.add_sender()
    office.start()
    now_ms = (await office.database.head()).now_ms

    await office.submit(make_request(send_at_ms=now_ms + 3_600_000))
    await asyncio.sleep(0.1)
    assert (office.provider.calls, await office.states()) == ([], ["pending"])
    await set_back(office, 3_600)
    await office.until("accepted")


async def test_recipients_of_one_request_are_called_for_one_by_one(office: Office) -> None:
    await office.add_sender()
    office.start()
    people = [make_recipient(f"a{n}@example.com") for n in range(30)]

    await office.submit(make_request(recipients=tuple(people)))
    await office.until("accepted")

    assert len({*office.provider.calls}) == len(office.provider.calls) == 30
