"""A new kind of work needs one file: this one. It has a table, a rule and a runner, and no more.

Reminders are sent to people. A lane is a person; a worker runs them beside its deliveries.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest_asyncio
from sqlalchemy import Connection, MetaData, Table, insert, select, update

from mailonce.core.work.job import AttemptOutcome, End, LeasedJob, LeaseRequest
from mailonce.core.work.lifecycle import finish
from mailonce.core.work.retry_rule import WorkRule
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.queue.work import LaneSettings
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.tables import DEAD_LETTERS, HEAD, LANES, attempt_columns, work_columns
from mailonce.store.schema.work_table import WorkTable
from mailonce.store.work import clock_step
from mailonce.store.work import rows as work_rows
from tests.queue.conftest import Works

# docs: begin
TABLES = MetaData()
REMINDERS = Table("reminders", TABLES, *work_columns("person"))
TRIES = Table("reminder_tries", TABLES, *attempt_columns("reminder"))
TABLE = WorkTable(
    rows=REMINDERS,
    attempts=TRIES,
    lane="person",
    row_of_attempt="reminder",
    columns=("workspace", "body"),
    letter="""
INSERT INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position, reason,
                          attempts, failed_ms, raw, last_error)
SELECT {letter}, d.workspace, d.person, 'reminder', {empty}, {hex}, 0, {reason}, d.attempts, {now},
       d.body, d.error
FROM {rows} AS d""",
)
RULE = WorkRule(waits_s=(0.05, 0.05), deadline_s=60, timeout_s=1.0, concurrency=4)
EVERYTHING = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
OK = AttemptOutcome(status=200)


class Reminders:
    """The kind of work."""

    table = TABLE

    def __init__(self, database: Database) -> None:
        self.leases = database.leases(TABLE)
        self.people = {"ada": RULE, "bob": RULE}
        self.ran: list[tuple[str, str, int]] = []
        self.answers: Callable[[str, int], AttemptOutcome] = lambda _text, _attempt: OK
        self.dead: list[str] = []
        self.waits = asyncio.Event()
        self.waits.set()
        self._changed: list[Callable[[], None]] = []

    def find(self, lane: str) -> LaneSettings | None:
        rule = self.people.get(lane)
        return None if rule is None else LaneSettings("default", rule, f"{lane}@example.com")

    def then(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    async def run(self, lane: LaneSettings, job: LeasedJob) -> AttemptOutcome | None:
        assert job.body is not None
        self.ran.append((lane.subject, job.body.decode(), job.attempt))
        await self.waits.wait()
        return self.answers(job.body.decode(), job.attempt)

    async def switch_off(self, lane: str, reason: str) -> None:
        old = self.people[lane]
        self.people[lane] = WorkRule(waits_s=old.waits_s, deadline_s=old.deadline_s, off=reason)
        for changed in self._changed:
            changed()

    def note_dead(self, lane: str, reason: str, *, key: bytes | None = None, many: int = 1) -> None:
        self.dead += [f"{lane} {reason} {key!r}"] * many


# docs: end
class Desk:
    """Owes reminders, and looks at what became of them."""

    def __init__(self, works: Works) -> None:
        self.works = works
        self.database = works.database

    async def open(self) -> "Desk":
        def make(tx: Connection) -> None:
            TABLES.create_all(tx)
            for person in ("ada", "bob"):
                lane = {"route": person, "owner": b"", "until_ms": 0, "seq": 0, "acknowledged": 0}
                tx.execute(insert(LANES).values(**lane))

        await self.database.write(make)
        return self

    async def owe(self, texts: Iterable[str], *, person: str = "ada") -> None:
        now_ms = (await self.database.head()).now_ms
        plain = dict.fromkeys(
            ("state", "lane", "attempts", "round_began", "redeliveries", "token"), 0
        )
        rows = [
            plain | {
                "key": text.encode(), "workspace": "default", "person": person,
                "body": text.encode(), "due_ms": now_ms, "made_ms": now_ms, "again": False,
                "deadline_ms": now_ms + RULE.deadline_s * 1000,
            }
            for text in texts
        ]  # fmt: skip
        await self.database.write(lambda tx: tx.execute(insert(REMINDERS), rows) and None)
        for worker in self.works.workers:
            worker.wake([person])

    async def rows(self) -> dict[str, dict[str, Any]]:
        return {row["key"].decode(): row for row in await self.works.rows(REMINDERS)}

    async def until_ended(self) -> None:
        async def check() -> bool:
            return all(row["state"] >= State.DONE for row in (await self.rows()).values())

        await self.works.until(check)

    async def change(self, **values: Any) -> None:
        await self.database.write(
            lambda tx: tx.execute(update(REMINDERS).values(**values)) and None
        )


@pytest_asyncio.fixture
async def desk(works: Works) -> Desk:
    return await Desk(works).open()


async def test_it_is_leased_run_and_done_beside_deliveries(desk: Desk) -> None:
    reminders = Reminders(desk.database)
    await desk.works.add_route()
    await desk.works.start(more=[reminders])

    await desk.owe(["tea"])
    await desk.works.owe(3)
    await desk.until_ended()
    await desk.works.until_ended()

    row = (await desk.rows())["tea"]
    [tried] = await desk.works.rows(TRIES)
    assert reminders.ran == [("ada@example.com", "tea", 1)]
    assert (row["state"], row["status"], row["attempts"]) == (State.DONE, 200, 1)
    assert (bytes(tried["reminder"]), tried["attempt"], tried["status"]) == (b"tea", 1, 200)
    assert len(desk.works.endpoint.requests) == 3


async def test_it_is_tried_again_by_its_rule_and_given_up(desk: Desk) -> None:
    reminders = Reminders(desk.database)
    reminders.answers = lambda text, attempt: AttemptOutcome(
        status=200 if (text, attempt) == ("late", 3) else 503, error="busy"
    )
    await desk.works.start(more=[reminders])

    await desk.owe(["late", "never"])
    await desk.until_ended()

    rows = await desk.rows()
    assert Counter(text for _, text, _ in reminders.ran) == {"late": 3, "never": 3}
    assert (rows["late"]["state"], rows["late"]["lane"]) == (State.DONE, AttemptKind.RETRY)
    assert (rows["never"]["state"], rows["never"]["attempts"]) == (State.DEAD, 3)
    assert reminders.dead == ["ada attempts b'never'"]
    [letter] = await desk.works.rows(DEAD_LETTERS)
    assert (letter["kind"], letter["source"], bytes(letter["raw"])) == ("reminder", "ada", b"never")
    assert (letter["reason"], letter["attempts"], letter["last_error"]) == ("attempts", 3, "busy")
    assert letter["arrival_key"] == b"never".hex()


async def test_two_workers_run_each_piece_once(desk: Desk) -> None:
    one, two = Reminders(desk.database), Reminders(desk.database)
    await desk.works.start(more=[one], lease_s=30)
    await desk.works.start(more=[two], lease_s=30)

    for person in ("ada", "bob"):
        await desk.owe([f"{person} {number}" for number in range(40)], person=person)
    await desk.until_ended()

    ran = Counter(text for _, text, _ in one.ran + two.ran)
    assert len(ran) == 80
    assert set(ran.values()) == {1}


async def test_a_worker_that_starts_leaves_others_their_leases_and_lanes(desk: Desk) -> None:
    one, two = Reminders(desk.database), Reminders(desk.database)
    del one.people["bob"]
    one.waits.clear()
    await desk.works.start(more=[one], lease_s=60, hold_s=60)
    await desk.owe(["tea"])
    await desk.works.until(lambda: one.ran)

    await desk.works.start(more=[two], lease_s=60, hold_s=60)
    await desk.owe(["milk"], person="bob")
    await desk.works.until(lambda: two.ran)
    holders = {row["route"]: bytes(row["owner"]) for row in await desk.works.rows(LANES)}
    one.waits.set()
    await desk.until_ended()

    assert [(text, attempt) for _, text, attempt in one.ran + two.ran] == [("tea", 1), ("milk", 1)]
    assert len({holders["ada"], holders["bob"], b""}) == 3
    assert (await desk.rows())["tea"]["attempts"] == 1


async def test_a_worker_that_was_paused_past_its_lease_changes_nothing(desk: Desk) -> None:
    reminders = Reminders(desk.database)
    await desk.owe(["tea"])
    await desk.database.lanes.hold(["ada"], owner=b"paused", hold_ms=200)
    want = LeaseRequest("ada", 10, 200, EVERYTHING)
    [stale] = await reminders.leases.lease([want], owner=b"paused")

    await desk.works.start(more=[reminders], lease_s=30)
    await desk.until_ended()
    before = await desk.rows()
    ends = [End.DONE, End.RETRY, End.DEAD, End.UNTRIED]
    late = [
        await reminders.leases.finish(
            [finish(stale.key, stale.token, end)._replace(letter=b"l", error="late")]
        )
        for end in ends
    ]

    tries = [(one["attempt"], one["error"]) for one in await desk.works.rows(TRIES)]
    assert late == [set()] * len(ends)
    assert await desk.rows() == before
    assert sorted(tries) == [(1, "lease_lost"), (2, None)]
    assert [attempt for _, _, attempt in reminders.ran] == [2]


async def test_a_lease_that_is_lost_too_often_leaves_a_letter(desk: Desk) -> None:
    await desk.owe(["tea"])
    await desk.database.lanes.hold(["ada"], owner=b"dead", hold_ms=60_000)
    await desk.database.leases(TABLE).lease(
        [LeaseRequest("ada", 1, 60_000, EVERYTHING)], owner=b"dead"
    )
    now_ms = (await desk.database.head()).now_ms

    def rescue(tx: Connection) -> Any:
        return work_rows.rescue(
            tx, now_ms=now_ms, new_id=lambda: b"l", lost_max=1, most=10, alive=(), table=TABLE
        )

    [lost] = await desk.database.write(rescue)

    [letter] = await desk.works.rows(DEAD_LETTERS)
    assert (lost.route, lost.is_dead) == ("ada", True)
    assert (letter["kind"], letter["reason"], letter["attempts"]) == ("reminder", "lease_lost", 1)


async def test_a_lane_is_switched_off_by_410_and_its_work_stays_owed(desk: Desk) -> None:
    reminders = Reminders(desk.database)
    reminders.answers = lambda _text, _attempt: AttemptOutcome(status=410)
    await desk.works.start(more=[reminders])

    await desk.owe(["one"])
    await desk.works.until(lambda: reminders.people["ada"].off)
    await desk.owe(["two"])

    async def all_due() -> bool:
        return {row["state"] for row in (await desk.rows()).values()} == {State.DUE}

    await desk.works.until(all_due)
    assert [text for _, text, _ in reminders.ran] == ["one"]


async def test_asked_for_again_while_it_runs_it_runs_once_more(desk: Desk) -> None:
    reminders = Reminders(desk.database)
    reminders.waits.clear()
    await desk.works.start(more=[reminders], lease_s=30)
    await desk.owe(["tea"])
    await desk.works.until(lambda: reminders.ran)

    await desk.change(again=True, redeliveries=1)
    reminders.waits.set()
    await desk.works.until(lambda: len(reminders.ran) == 2)
    await desk.until_ended()

    row = (await desk.rows())["tea"]
    assert (row["attempts"], row["round_began"], row["again"]) == (2, 1, False)


async def test_a_handlers_transaction_ends_it(desk: Desk) -> None:
    await desk.owe(["tea"])
    leases = desk.database.leases(TABLE)
    await desk.database.lanes.hold(["ada"], owner=b"me", hold_ms=60_000)
    [job] = await leases.lease([LeaseRequest("ada", 1, 60_000, EVERYTHING)], owner=b"me")

    def complete(tx: Connection) -> bool:
        return work_rows.complete(tx, job, now_ms=5, latency_ms=2, table=TABLE)

    done = [await desk.database.write(complete) for _ in range(2)]

    row = (await desk.rows())["tea"]
    assert done == [True, False]
    assert (row["state"], row["done_ms"], row["lease_ms"]) == (State.DONE, 5, None)
    assert await leases.finish([finish(WorkKey(b"tea"), 1, End.RETRY)]) == set()


async def test_it_waits_no_longer_where_the_clock_was_set_back(desk: Desk) -> None:
    await desk.owe(["tea"])
    hour_ms = 3_600_000
    now_ms = (await desk.database.head()).now_ms
    await desk.change(due_ms=now_ms + hour_ms + 1_000)

    def set_back(tx: Connection) -> int:
        tx.execute(update(HEAD).values(clock_ms=now_ms + hour_ms))
        return clock_step.mend(tx, now_ms=now_ms, tables=[TABLE])

    back_ms = await desk.database.write(set_back)

    due_ms = await desk.database.read(lambda tx: tx.scalar(select(REMINDERS.c.due_ms)))
    assert hour_ms - 60_000 < back_ms <= hour_ms
    assert due_ms == now_ms + hour_ms + 1_000 - back_ms
