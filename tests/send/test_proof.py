"""A provider's webhook settles the send whose id it carries, in the commit that records it."""

import asyncio
from typing import Any

import orjson
import pytest
from msgspec.structs import replace
from sqlalchemy import update

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.core.sends.send_key import uuid_text
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.sends.sending import Accepted, SendOutcome, TryAgain, Unknown
from mailonce.core.work.states import State
from mailonce.pipeline.parse import entry_of
from mailonce.providers.postmark import PROVIDER
from mailonce.store.dialects.contract import Batch, RowError
from mailonce.store.schema.send_tables import SENDS
from mailonce.store.schema.tables import EVENTS
from tests.core.sends.send_requests import make_request
from tests.factories import make_source
from tests.send.office import Office

WHO_KNOWS = Unknown(reason="no answer in time")


def webhook(
    office: Office, uuid: str, *, recipient: str = "Ann@Example.com", **changes: Any
) -> Entry:
    record = {
        "RecordType": "Delivery", "MessageID": "pm-1", "Recipient": recipient,
        "DeliveredAt": "2026-11-17T09:00:00Z", "Metadata": {"mailonce_id": uuid},
    }  # fmt: skip
    source = make_source(provider="postmark", basic=("a:b",), **changes)
    arrival = Arrival(method="POST", headers={}, body=orjson.dumps(record), now_ms=0)
    parsed = PROVIDER.parse(arrival, source)
    return entry_of(PROVIDER, source, arrival, parsed, new_id=office.clock.new_id)


async def lose(office: Office, to: str = "ann@example.com") -> str:
    """Send a mail whose outcome nobody knows; give its id."""
    await office.add_sender(provider="postmark")
    office.provider.answers = lambda _: WHO_KNOWS
    office.start()
    await office.submit(make_request(to))
    await office.until("unknown")
    [row] = await office.rows()
    return uuid_text(row["key"])


async def test_an_unknown_send_is_settled_by_its_webhook_alone(office: Office) -> None:
    uuid = await lose(office)

    await office.recorder.record(webhook(office, uuid))

    [row] = await office.rows()
    [event] = await office.rows(EVENTS)
    assert (row["send_state"], row["state"]) == (SendState.ACCEPTED, State.DONE)
    assert (row["message_id"], bytes(row["proof"])) == ("pm-1", bytes(event["id"]))
    assert (row["error"], row["done_ms"] is not None) == (None, True)
    assert len(office.provider.calls) == 1


async def test_a_webhook_counts_after_the_deadline(office: Office) -> None:
    uuid = await lose(office)
    past = {"state": State.DEAD, "error": "nothing tells whether it was sent"}
    await office.database.write(lambda tx: tx.execute(update(SENDS).values(**past)) and None)

    await office.recorder.record(webhook(office, uuid))

    assert await office.states() == ["accepted"]


@pytest.mark.parametrize(
    "answer",
    [Accepted(message_id="pm-1", evidence="200"), TryAgain(reason="429"), WHO_KNOWS],
    ids=["accepted", "try_again", "unknown"],
)
async def test_a_webhook_that_comes_before_the_answer_is_not_lost(
    office: Office, answer: SendOutcome
) -> None:
    await office.add_sender(provider="postmark")
    answered: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()
    office.provider.answers = lambda _: answered
    office.start(lease_s=60)
    await office.submit(make_request())
    await office.until_true(lambda: office.provider.calls)

    await office.recorder.record(webhook(office, office.provider.calls[0]))
    before = await office.states()
    answered.set_result(answer)

    async def noted() -> bool:
        return len(await office.steps()) == 1

    await office.until_true(noted)
    assert (before, await office.states()) == (["accepted"], ["accepted"])
    [row] = await office.rows()
    assert (row["message_id"], len(office.provider.calls)) == ("pm-1", 1)


async def test_a_send_that_was_about_to_be_sent_again_is_not(office: Office) -> None:
    await office.add_sender(provider="postmark", waits_s=(3_600.0,))
    office.provider.answers = lambda _: TryAgain(reason="429")
    office.start()
    await office.submit(make_request())

    async def waits() -> bool:
        return await office.steps() == [("call", "try_again")]

    await office.until_true(waits)

    await office.recorder.record(webhook(office, office.provider.calls[0]))

    assert await office.states() == ["accepted"]


@pytest.mark.parametrize(
    "changes",
    [{"workspace": "other"}, {"recipient": "bob@example.com"}, {"unproven": True}],
    ids=["workspace", "recipient", "unproven"],
)
async def test_somebody_elses_event_settles_nothing(
    office: Office, changes: dict[str, Any]
) -> None:
    uuid = await lose(office)

    outcome = await office.recorder.record(webhook(office, uuid, **changes))

    assert isinstance(outcome, ArrivalOutcome)
    assert outcome.status is Status.ACCEPTED
    assert await office.states() == ["unknown"]


async def test_an_event_proves_nothing_of_a_mail_that_was_never_called_for(
    office: Office,
) -> None:
    await office.add_sender(provider="postmark")
    await office.submit(make_request())
    [row] = await office.rows()

    await office.recorder.record(webhook(office, uuid_text(row["key"])))

    assert await office.states() == ["pending"]


@pytest.mark.parametrize("state", [SendState.CANCELLED, SendState.SUPPRESSED])
async def test_a_send_that_was_stopped_before_it_was_sent_again_can_be_proven(
    office: Office, state: SendState
) -> None:
    uuid = await lose(office)
    # Somebody asked for it again, and then it was cancelled, or its address was suppressed.
    stopped = update(SENDS).values(send_state=state, state=State.DONE)
    await office.database.write(lambda tx: tx.execute(stopped))

    await office.recorder.record(webhook(office, uuid))

    [row] = await office.rows()
    assert (row["send_state"], row["message_id"]) == (SendState.ACCEPTED, "pm-1")


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ("ann@b\u00fccher.example", "ann@xn--bcher-kva.example"),
        ("ann@xn--bcher-kva.example", "Ann@B\u00fccher.example"),
        ("ann@example.com.", "ann@example.com"),
    ],
)
async def test_a_domain_is_the_same_in_each_of_its_spellings(
    office: Office, given: str, reported: str
) -> None:
    uuid = await lose(office, given)

    await office.recorder.record(webhook(office, uuid, recipient=reported))

    assert await office.states() == ["accepted"]


async def test_event_and_settled_send_are_one_commit(office: Office) -> None:
    uuid = await lose(office)
    [row] = await office.rows()
    entry = webhook(office, uuid)
    # It cannot be written for a reason that has nothing to do with the send.
    batch = Batch(office.clock.new_id(), [replace(entry, arrival_key="\ud800")])

    with pytest.raises(RowError):
        await office.database.record(batch)

    assert await office.rows(EVENTS) == []
    assert await office.rows() == [row]


async def test_the_message_id_of_an_accepted_send_is_learned_from_its_event(
    office: Office,
) -> None:
    await office.add_sender(provider="postmark")
    office.provider.answers = lambda _: Accepted(message_id=None, evidence="200 without a body")
    office.start()
    await office.submit(make_request())
    await office.until("accepted")

    await office.recorder.record(webhook(office, office.provider.calls[0]))

    [row] = await office.rows()
    assert row["message_id"] == "pm-1"


async def test_many_events_of_one_send_in_one_batch_settle_it_once(
    office: Office,
) -> None:
    uuid = await lose(office)
    entries = [webhook(office, uuid) for _ in range(5)]

    await asyncio.gather(*(office.recorder.record(entry) for entry in entries))

    assert await office.states() == ["accepted"]
    assert len(await office.rows(EVENTS)) == 1
