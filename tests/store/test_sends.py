"""Sends in the ledger: submitted once, in flight by a commit of their own, undone by nobody."""

import asyncio
from typing import Any

from sqlalchemy import Connection, insert, update

from mailonce.core.events.key import Key
from mailonce.core.events.suppression import Cause
from mailonce.core.ids import first_id
from mailonce.core.ledger.claim import ConflictWith, CopyOf, FirstClaim
from mailonce.core.ledger.entry import GuardBroken
from mailonce.core.query import SendFilter
from mailonce.core.sends.send_decision import SendChange
from mailonce.core.sends.send_key import derived_key, given_key
from mailonce.core.sends.send_lifecycle import SendAct, SendState
from mailonce.core.work.job import LeasedJob, LeaseRequest
from mailonce.core.work.states import AttemptKind, State
from mailonce.store.dialects.contract import Database
from mailonce.store.ledger import suppressions
from mailonce.store.ledger.suppressions import LiftTarget
from mailonce.store.schema.send_tables import (
    SEND_ATTEMPTS,
    SEND_CONTENTS,
    SEND_REQUESTS,
    SEND_TABLE,
    SENDS,
)
from mailonce.store.schema.tables import ARRIVALS, HEAD, LANES
from mailonce.store.sends import forgetting, known, pages
from mailonce.store.sends.flight_batches import FlightBatches
from mailonce.store.sends.flights import FlightMark, SendEnd, SendJob, SendStep
from mailonce.store.work import clock_step
from mailonce.store.work import rows as work_rows
from tests.core.sends.send_requests import make_request
from tests.send.submitting import (
    CLOCK,
    SENDER,
    make_entry_of,
    recording,
    rows,
    submit,
    verdicts_of,
)

EVERYTHING = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
MANY = [f"a{number}@example.com" for number in range(1000)]
CAUSE = derived_key(cause_id="order-1", stream="", template="")


async def lease(database: Database, *, owner: bytes = b"me", most: int = 10) -> list[LeasedJob]:
    def open_lane(tx: Connection) -> None:
        if not tx.execute(LANES.select().where(LANES.c.route == SENDER)).first():
            lane = {"route": SENDER, "owner": b"", "until_ms": 0, "seq": 0, "acknowledged": 0}
            tx.execute(insert(LANES).values(**lane))

    await database.write(open_lane)
    await database.lanes.hold([SENDER], owner=owner, hold_ms=60_000)
    wants = [LeaseRequest(SENDER, most, 60_000, EVERYTHING)]
    return await database.leases(SEND_TABLE).lease(wants, owner=owner)


def mark_of(job: LeasedJob, **changes: Any) -> FlightMark:
    mark = FlightMark(
        job.key, job.token, SendAct.BEGIN, "default", "ann@example.com", "", False, None
    )
    return mark._replace(**changes)


async def begin(database: Database, *marks: FlightMark) -> tuple[set[bytes], dict[bytes, str]]:
    now_ms = (await database.head()).now_ms
    return await FlightBatches(database).begin(marks, now_ms=now_ms)


async def end(database: Database, job: SendJob, change: SendChange) -> set[bytes]:
    now_ms = (await database.head()).now_ms
    step = SendStep(job.key, 1, now_ms, 5, 250, None, "call", "accepted", job.sender, None)
    return await FlightBatches(database).end([SendEnd(job, change)], [step], now_ms=now_ms)


async def read(database: Database, key: bytes) -> SendJob:
    return (await FlightBatches(database).read([key]))[key]


async def fly(database: Database) -> tuple[LeasedJob, SendJob]:
    """Submit a send, lease it and mark it as in flight."""
    await submit(database, make_request())
    [job] = await lease(database)
    assert await begin(database, mark_of(job)) == ({job.key}, {})
    return job, await read(database, job.key)


async def suppress(database: Database, address: str, *, stream: str = "") -> None:
    await database.write(
        lambda tx: suppressions.suppress(
            tx, "default", address, LiftTarget(stream, Cause.MANUAL),
            id_=CLOCK.new_id(), stamp=bytes(16), reason=None, now_ms=1,  # type: ignore[arg-type]
        )
    )  # fmt: skip


async def test_a_thousand_recipients_are_a_thousand_rows_with_one_content(
    database: Database,
) -> None:
    [answer] = await submit(database, make_request(*MANY))

    assert {type(one) for one in verdicts_of(answer)} == {FirstClaim}
    sends = await rows(database)
    assert len(sends) == 1000
    assert len({row["content"] for row in sends}) == len(await rows(database, SEND_CONTENTS)) == 1
    assert len(await rows(database, SEND_REQUESTS)) == 1
    assert await rows(database, ARRIVALS) == []
    assert {(row["state"], row["send_state"]) for row in sends} == {(0, 0)}


async def test_of_twenty_copies_at_once_one_is_first(database: Database) -> None:
    async with recording(database) as recorder:
        answers = await asyncio.gather(
            *(recorder.record(make_entry_of(make_request())) for _ in range(20))
        )

    verdicts = [type(verdicts_of(one)[0]) for one in answers]
    assert (verdicts.count(FirstClaim), verdicts.count(CopyOf)) == (1, 19)
    assert len(await rows(database)) == 1


async def test_a_given_key_stands_for_its_recipients_too(database: Database) -> None:
    first, more, other = await submit(
        database,
        make_request("ann@example.com", "bob@example.com"),
        make_request("ann@example.com", "bob@example.com", "cy@example.com"),
        make_request("ann@example.com", "bob@example.com", text="Other words."),
    )

    assert {type(one) for one in verdicts_of(first)} == {FirstClaim}
    assert isinstance(more, GuardBroken)
    assert isinstance(other, GuardBroken)
    assert sorted(row["recipient"] for row in await rows(database)) == [
        "ann@example.com",
        "bob@example.com",
    ]


async def test_a_derived_key_lets_further_recipients_in(database: Database) -> None:
    _, more = await submit(
        database,
        make_request("ann@example.com", key=CAUSE),
        make_request("ann@example.com", "bob@example.com", key=CAUSE),
    )

    assert [type(one) for one in verdicts_of(more)] == [CopyOf, FirstClaim]


async def test_where_one_recipient_is_a_conflict_nothing_is_kept(database: Database) -> None:
    ann = make_request("ann@example.com", key=CAUSE)
    changed = make_request("zoe@example.com", "ann@example.com", key=CAUSE, text="Other")

    _, answer = await submit(database, ann, changed)

    assert [type(one) for one in verdicts_of(answer)] == [FirstClaim, ConflictWith]
    assert [row["recipient"] for row in await rows(database)] == ["ann@example.com"]
    assert len(await rows(database, SEND_CONTENTS)) == 1
    # What was refused took no key.
    [again] = await submit(database, make_request("zoe@example.com", key=CAUSE))
    assert [type(one) for one in verdicts_of(again)] == [FirstClaim]


async def test_the_ledger_knows_keys_that_the_claims_forgot(database: Database) -> None:
    request = make_request("ann@example.com")
    await submit(database, request)
    entry = make_entry_of(request)
    [item], guard = entry.items, entry.guard
    assert guard is not None

    sends, requests, parts = await database.read(
        lambda tx: (
            known.sends_of(tx, [item.key, Key(bytes(16))]),
            known.requests_of(tx, [guard[0]]),
            known.parts_of_request(tx, "default", request.key.text),
        )
    )

    assert list(sends) == [item.key]
    assert sends[item.key].fingerprint == item.fingerprint
    assert requests == {guard[0]: guard[1]}
    assert parts == sends[item.key].parts


async def test_suppressions_are_told_by_address_stream_and_workspace(database: Database) -> None:
    await suppress(database, "ann@example.com")
    await suppress(database, "bob@example.com", stream="news")
    places = [
        ("default", "ann@example.com"),
        ("default", "bob@example.com"),
        ("other", "ann@example.com"),
    ]

    streams = await database.read(lambda tx: known.suppressed(tx, places))

    assert set(streams) == set(places[:2])
    assert streams[places[0]].cause_for("news") == "manual"
    assert streams[places[1]].cause_for("news") == "manual"
    assert streams[places[1]].cause_for("codes") is None


async def test_a_send_is_in_flight_under_its_lease_alone(database: Database) -> None:
    await submit(database, make_request())
    [job] = await lease(database)

    stale = await begin(database, mark_of(job, token=job.token - 1))
    flying = await begin(database, mark_of(job))
    twice = await begin(database, mark_of(job))

    assert [stale, flying, twice] == [(set(), {}), ({job.key}, {}), (set(), {})]
    row = await read(database, job.key)
    assert (row.send_state, row.flight, row.tries) == (SendState.IN_FLIGHT, job.attempt, 1)
    assert row.flight_ms is not None


async def test_a_send_whose_lease_ran_out_does_not_leave(database: Database) -> None:
    await submit(database, make_request())
    [job] = await lease(database)
    await database.write(lambda tx: tx.execute(update(SENDS).values(lease_ms=1)) and None)

    assert await begin(database, mark_of(job)) == (set(), {})


async def test_a_suppressed_address_is_noticed_as_the_send_is_about_to_leave(
    database: Database,
) -> None:
    await submit(database, make_request())
    [job] = await lease(database)
    await suppress(database, "ann@example.com")

    flying, causes = await begin(database, mark_of(job))

    assert (flying, causes) == (set(), {job.key: "manual"})
    [row] = await rows(database)
    assert (row["send_state"], row["state"]) == (SendState.SUPPRESSED, State.DONE)
    assert row["error"] == "suppressed: manual"
    assert row["done_ms"] is not None


async def test_a_batch_of_marks_tells_apart_who_may_leave(database: Database) -> None:
    people = [f"p{number}@example.com" for number in range(5)]
    await submit(database, make_request(*people, key=CAUSE))
    jobs = {(await read(database, job.key)).recipient: job for job in await lease(database)}
    marks = {one: mark_of(job, recipient=one) for one, job in jobs.items()}
    await suppress(database, people[1])
    # Of these something is known, and it does not keep this mail back.
    await suppress(database, people[2], stream="news")
    marks[people[3]] = marks[people[3]]._replace(token=marks[people[3]].token + 1)
    marks[people[4]] = marks[people[4]]._replace(frozen=b"bytes")

    flying, causes = await begin(database, *marks.values())

    assert flying == {jobs[people[place]].key for place in (0, 2, 4)}
    assert causes == {jobs[people[1]].key: "manual"}
    stands = [await read(database, jobs[one].key) for one in people]
    assert [one.send_state for one in stands] == [
        SendState.IN_FLIGHT, SendState.SUPPRESSED, SendState.IN_FLIGHT, SendState.PENDING,
        SendState.IN_FLIGHT,
    ]  # fmt: skip
    assert [one.body for one in stands] == [None, None, None, None, b"bytes"]
    assert [one.tries for one in stands] == [1, 0, 1, 0, 1]


async def test_a_repetition_keeps_the_bytes_and_the_age_of_its_call(database: Database) -> None:
    await submit(database, make_request())
    [job] = await lease(database)
    await begin(database, mark_of(job, frozen=b"bytes"))
    first = await read(database, job.key)
    unknown = SendChange(state=SendState.UNKNOWN, reason="no answer")
    await end(database, first, unknown)
    [again] = await lease(database)

    flying, _ = await begin(database, mark_of(again, act=SendAct.REPEAT))
    other, _ = await begin(database, mark_of(again, act=SendAct.BEGIN))

    assert (flying, other) == ({job.key}, set())
    second = await read(database, job.key)
    assert (second.body, second.flight_ms, second.tries) == (b"bytes", first.flight_ms, 1)
    assert (bool(second.is_repeat), second.flight) == (True, again.attempt)


async def test_a_forced_send_leaves_all_the_same(database: Database) -> None:
    await submit(database, make_request(), is_forced=True)
    [job] = await lease(database)
    await suppress(database, "ann@example.com")

    assert await begin(database, mark_of(job, is_forced=True)) == ({job.key}, {})


async def test_an_outcome_ends_the_lease_and_is_noted(database: Database) -> None:
    leased, job = await fly(database)

    stood = await end(database, job, SendChange(state=SendState.ACCEPTED, message_id="m-1"))

    assert stood == {leased.key}
    [row] = await rows(database)
    assert (row["state"], row["send_state"], row["message_id"]) == (2, SendState.ACCEPTED, "m-1")
    assert (row["lease_ms"], row["error"]) == (None, None)
    [step] = await rows(database, SEND_ATTEMPTS)
    assert (step["step"], step["outcome"], step["status"]) == ("call", "accepted", 250)


async def test_an_outcome_changes_nothing_where_somebody_was_quicker(database: Database) -> None:
    _, job = await fly(database)
    await end(database, job, SendChange(state=SendState.ACCEPTED, message_id="m-1"))

    stood = await end(database, job, SendChange(state=SendState.PENDING, reason="late"))

    assert stood == set()
    [row] = await rows(database)
    assert (row["send_state"], row["message_id"]) == (SendState.ACCEPTED, "m-1")


async def test_another_sender_takes_over_what_was_not_sent(database: Database) -> None:
    _, job = await fly(database)
    change = SendChange(
        state=SendState.PENDING, sender="snr_2", deadline_in_ms=9_000, tries=0, reason="no"
    )

    await end(database, job, change)

    [row] = await rows(database)
    assert (row["sender"], row["state"], row["tries"], row["error"]) == ("snr_2", 0, 0, "no")


async def test_a_lost_lease_leaves_a_send_pending_or_unknown_by_whether_it_left(
    database: Database,
) -> None:
    await submit(database, make_request("ann@example.com", "bob@example.com"), lane=0)
    leased = await lease(database)
    await begin(database, mark_of(leased[0]))
    now_ms = (await database.head()).now_ms

    def rescue(tx: Connection) -> Any:
        return work_rows.rescue(
            tx, now_ms=now_ms, new_id=CLOCK.new_id, lost_max=8, most=10, of=b"me",
            table=SEND_TABLE,
        )  # fmt: skip

    lost = await database.write(rescue)

    states = {bytes(row["key"]): (row["send_state"], row["state"], row["lane"])
              for row in await rows(database)}  # fmt: skip
    assert len(lost) == 2
    assert states == {
        leased[0].key: (SendState.UNKNOWN, State.DUE, 0),
        leased[1].key: (SendState.PENDING, State.DUE, 0),
    }


async def test_a_lease_is_lost_although_its_step_was_noted(database: Database) -> None:
    """One row that cannot be written would keep all leases from being given back."""
    job, send = await fly(database)
    overtaken = send._replace(flight=send.flight + 1)
    assert await end(database, overtaken, SendChange(state=SendState.ACCEPTED)) == set()
    now_ms = (await database.head()).now_ms

    lost = await database.write(
        lambda tx: work_rows.rescue(
            tx, now_ms=now_ms, new_id=CLOCK.new_id, lost_max=8, most=10, alive=(),
            table=SEND_TABLE,
        )
    )  # fmt: skip

    [step] = await rows(database, SEND_ATTEMPTS)
    assert (len(lost), step["outcome"]) == (1, "accepted")
    assert (await read(database, job.key)).send_state == SendState.UNKNOWN


async def test_a_lease_that_is_lost_too_often_refuses_only_what_never_left(
    database: Database,
) -> None:
    await submit(database, make_request("ann@example.com", "bob@example.com"))
    leased = await lease(database)
    await begin(database, mark_of(leased[0]))
    now_ms = (await database.head()).now_ms
    await database.write(
        lambda tx: work_rows.rescue(
            tx, now_ms=now_ms, new_id=CLOCK.new_id, lost_max=1, most=10, alive=(),
            table=SEND_TABLE,
        )
    )  # fmt: skip

    ends = {bytes(row["key"]): (row["send_state"], row["state"], row["done_ms"] is None)
            for row in await rows(database)}  # fmt: skip
    assert ends == {
        leased[0].key: (SendState.UNKNOWN, State.DEAD, True),
        leased[1].key: (SendState.REFUSED, State.DEAD, False),
    }


async def test_what_is_past_its_time_is_refused_unless_it_may_have_been_sent(
    database: Database,
) -> None:
    await submit(database, make_request("ann@example.com", "bob@example.com"))
    [one, two] = sorted(row["key"] for row in await rows(database))
    now_ms = (await database.head()).now_ms

    def work(tx: Connection) -> int:
        tx.execute(update(SENDS).values(deadline_ms=1))
        tx.execute(update(SENDS).where(SENDS.c.key == one).values(send_state=SendState.UNKNOWN))
        return work_rows.give_up(
            tx, SENDER, reason="deadline", until_ms=now_ms, now_ms=now_ms, new_id=CLOCK.new_id,
            most=10, table=SEND_TABLE,
        )  # fmt: skip

    assert await database.write(work) == 2
    states = {row["key"]: (row["send_state"], row["done_ms"]) for row in await rows(database)}
    assert states[one] == (SendState.UNKNOWN, None)
    assert states[two] == (SendState.REFUSED, now_ms)


async def test_a_clock_that_is_set_back_takes_the_beginning_of_a_flight_along(
    database: Database,
) -> None:
    _, job = await fly(database)
    now_ms = (await database.head()).now_ms
    hour_ms = 3_600_000

    def set_back(tx: Connection) -> int:
        tx.execute(HEAD.update().values(clock_ms=now_ms + hour_ms))
        return clock_step.mend(tx, now_ms=now_ms, tables=[SEND_TABLE])

    back_ms = await database.write(set_back)

    assert job.flight_ms is not None
    assert (await read(database, job.key)).flight_ms == job.flight_ms - back_ms


async def test_what_is_settled_is_forgotten_after_its_time_and_the_rest_stays(
    database: Database,
) -> None:
    await submit(
        database,
        make_request("ann@example.com"),
        make_request("bob@example.com", key=given_key("k-2")),
    )
    settled = {"send_state": SendState.ACCEPTED, "state": State.DONE, "done_ms": 5, "made_ms": 5}
    await database.write(
        lambda tx: (
            tx.execute(
                update(SENDS).where(SENDS.c.recipient == "ann@example.com").values(**settled)
            )
            and None
        )
    )
    future_ms = CLOCK.now_ms() + 86_400_000

    def work(tx: Connection) -> tuple[int, int]:
        contents = forgetting.forget_contents(tx, before_ms=future_ms, most=10)
        return contents, forgetting.forget(tx, before_ms=future_ms, most=10)

    assert await database.write(work) == (1, 1)
    assert [row["recipient"] for row in await rows(database)] == ["bob@example.com"]
    assert len(await rows(database, SEND_CONTENTS)) == 1


async def test_pages_are_newest_first_and_of_one_workspace(database: Database) -> None:
    for number in range(3):
        await submit(database, make_request(f"a{number}@example.com", key=given_key(f"k{number}")))
    await submit(database, make_request("a9@example.com"), workspace="other")

    first = await database.read(
        lambda tx: pages.page(tx, "default", SendFilter(), below=None, limit=2)
    )
    below = pages.SendPosition(first[-1].made_ms, first[-1].key)
    second = await database.read(
        lambda tx: pages.page(tx, "default", SendFilter(), below=below, limit=2)
    )
    one = await database.read(
        lambda tx: pages.page(
            tx, "default", SendFilter(recipient="a1@example.com"), below=None, limit=9
        )
    )

    listed = [*first, *second]
    assert len({row.id for row in listed}) == 3
    assert [row.made_ms for row in listed] == sorted((r.made_ms for r in listed), reverse=True)
    assert [row.send_key for row in one] == ["k1"]
    assert await database.read(lambda tx: pages.get(tx, "other", one[0].id)) is None
    assert first_id(0) < one[0].id
