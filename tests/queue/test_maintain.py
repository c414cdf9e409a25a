"""Pruning of the outgoing side: nothing that is owed loses its body, nothing stays for ever."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, update

from mailonce.clock import Clock
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.work.states import State
from mailonce.errors import UnavailableError
from mailonce.queue.maintain import Maintenance
from mailonce.settings import read_settings
from mailonce.store import housekeeping
from mailonce.store.configuration import routes
from mailonce.store.dialects.contract import DAY_MS, Database
from mailonce.store.dialects.sqlite.database import SqliteDatabase
from mailonce.store.housekeeping import FORGET
from mailonce.store.ledger import dead_letters
from mailonce.store.schema.send_tables import SENDS
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES, EVENTS, FACTS
from mailonce.store.work import pages
from mailonce.telemetry import Metrics
from mailonce.wiring import build_service
from tests.core.sends.send_requests import make_request
from tests.factories import Ledger, make_body, make_source, new_id
from tests.send.office import Office
from tests.store.scans import scans_of

WINDOW_DAYS = 10
WINDOW_MS = WINDOW_DAYS * DAY_MS


class Bench:
    """Deliveries of a ledger, and the maintenance of one process."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.database: Database = ledger.database
        self.maintenance = Maintenance(
            ledger.database,
            Metrics(),
            self._flush,
            new_id=Clock().new_id,
            window_days=WINDOW_DAYS,
            facts_days=400,
        )

    async def _flush(self) -> None:
        """Nothing was counted in memory."""

    async def owe(self, number: int = 1, *, days_ago: int = 0, **changes: Any) -> list[bytes]:
        """Owe events that were received some days ago, as the database has them then."""
        if not self.ledger.routes:
            await self.ledger.add_route()
        before = set(await self.rows())
        await self.ledger.owe(number)
        keys = sorted(set(await self.rows()) - before)
        moved = {"made_ms": DELIVERIES.c.made_ms - days_ago * DAY_MS,
                 "deadline_ms": DELIVERIES.c.deadline_ms - days_ago * DAY_MS,
                 "day": DELIVERIES.c.day - days_ago}  # fmt: skip
        today = self.ledger.now_ms // DAY_MS
        await self.database.ensure_days(range(today - days_ago, today - days_ago + 1))
        events = [row.event for key, row in (await self.rows()).items() if key in keys]
        day, minted_ms = EVENTS.c.day - days_ago, self.ledger.now_ms - days_ago * DAY_MS

        def work(tx: Any) -> None:
            tx.execute(
                update(DELIVERIES).where(DELIVERIES.c.key.in_(keys)).values(**(moved | changes))
            )
            for id_ in events if days_ago else ():
                older = new_id(minted_ms)
                tx.execute(update(EVENTS).where(EVENTS.c.id == id_).values(day=day, id=older))
                tx.execute(update(DELIVERIES).where(DELIVERIES.c.event == id_).values(event=older))

        await self.database.write(work)
        return keys

    async def rows(self) -> dict[bytes, Any]:
        rows = await self.database.read(lambda tx: tx.execute(select(DELIVERIES)).all())
        return {bytes(row.key): row for row in rows}

    async def body(self, key: bytes) -> bytes | None:
        def work(tx: Any) -> bytes | None:
            delivery = pages.get(tx, "default", key)
            return None if delivery is None else pages.body_of(tx, delivery)

        return await self.database.read(work)

    async def letters(self) -> list[Any]:
        query = select(DEAD_LETTERS).order_by(DEAD_LETTERS.c.id)
        return list(await self.database.read(lambda tx: tx.execute(query).all()))

    async def count(self, table: Any) -> int:
        query = select(func.count()).select_from(table)
        return await self.database.read(lambda tx: tx.scalar(query) or 0)


@pytest.fixture
def bench(ledger: Ledger) -> Bench:
    return Bench(ledger)


async def test_a_body_that_is_still_owed_outlives_its_day(bench: Bench) -> None:
    now_ms = bench.ledger.now_ms
    patient = {"deadline_ms": now_ms + DAY_MS}
    [due] = await bench.owe(days_ago=WINDOW_DAYS + 2, **patient)
    [leased] = await bench.owe(
        days_ago=WINDOW_DAYS + 2, state=State.LEASED, lease_ms=now_ms + DAY_MS, **patient
    )
    [done] = await bench.owe(days_ago=WINDOW_DAYS + 2, state=State.DONE, done_ms=now_ms)
    bodies = {key: await bench.body(key) for key in (due, leased, done)}

    await bench.maintenance.prune()

    assert await bench.count(EVENTS) == 0
    assert None not in bodies.values()
    assert await bench.body(due) == bodies[due]
    assert await bench.body(leased) == bodies[leased]
    assert await bench.body(done) is None, "what is done needs none any more"
    assert (await bench.rows())[due].state == State.DUE


async def test_what_is_owed_to_a_route_that_is_off_waits_one_window(bench: Bench) -> None:
    [fresh] = await bench.owe(days_ago=WINDOW_DAYS - 1)
    [old] = await bench.owe(days_ago=WINDOW_DAYS + 1)
    body = await bench.body(old)
    await bench.database.write(
        lambda tx: routes.switch(tx, "rte_main", off="holiday", now_ms=bench.ledger.now_ms)
    )

    await bench.maintenance.prune()

    rows = await bench.rows()
    [letter] = await bench.letters()
    assert (rows[fresh].state, rows[old].state) == (State.DUE, State.DEAD)
    assert (letter.reason, letter.kind, letter.route) == ("off", "delivery", "rte_main")
    assert (letter.arrival_key, bytes(letter.delivery), letter.raw) == (old.hex(), old, body)
    assert letter.source == "src_main"


async def test_what_was_asked_for_again_is_not_old(bench: Bench) -> None:
    now_ms = bench.ledger.now_ms
    [key] = await bench.owe(
        days_ago=WINDOW_DAYS - 1, deadline_ms=now_ms + 4 * DAY_MS, redeliveries=1
    )
    await bench.database.write(lambda tx: routes.switch(tx, "rte_main", off="x", now_ms=now_ms))

    await bench.maintenance.prune()

    assert (await bench.rows())[key].state == State.DUE


async def test_what_is_owed_to_a_deleted_route_becomes_dead_letters_at_once(
    bench: Bench,
) -> None:
    keys = await bench.owe(1_200)
    await bench.ledger.add_route(id="rte_other")
    kept = await bench.owe(2)
    await bench.database.write(lambda tx: routes.remove(tx, "default", "rte_main"))

    await bench.maintenance.prune()

    rows, letters = await bench.rows(), await bench.letters()
    of_main = {key for key, row in rows.items() if row.route == "rte_main"}
    assert set(keys) < of_main
    assert {rows[key].state for key in of_main} == {State.DEAD}
    assert {rows[key].state for key in kept if rows[key].route == "rte_other"} == {State.DUE}
    assert {letter.reason for letter in letters} == {"route_deleted"}
    assert {bytes(letter.delivery) for letter in letters} == of_main
    assert len(letters) == len(of_main)
    assert all(letter.raw.startswith(b'{"schema"') for letter in letters)


async def test_finished_deliveries_are_kept_two_windows_with_their_attempts(
    bench: Bench,
) -> None:
    now_ms = bench.ledger.now_ms
    long_ago, lately = now_ms - 2 * WINDOW_MS - DAY_MS, now_ms - 2 * WINDOW_MS + DAY_MS
    old = await bench.owe(600, days_ago=0, state=State.DONE, made_ms=long_ago, done_ms=long_ago)
    [young] = await bench.owe(state=State.DONE, made_ms=lately, done_ms=lately)
    [again] = await bench.owe(state=State.DONE, made_ms=long_ago, done_ms=now_ms)
    [dead] = await bench.owe(state=State.DEAD, made_ms=long_ago, done_ms=long_ago)
    [resolved] = await bench.owe(state=State.DEAD, made_ms=long_ago, done_ms=long_ago)
    await _write_letter(bench, dead)
    tries = [
        {"delivery": key, "attempt": 1, "at_ms": 0, "latency_ms": 0} for key in (old[0], young)
    ]
    await bench.database.write(lambda tx: tx.execute(insert(ATTEMPTS), tries) and None)

    await bench.maintenance.prune()

    assert set(await bench.rows()) == {young, again, dead}
    assert resolved not in await bench.rows()
    left = await bench.database.read(lambda tx: tx.scalars(select(ATTEMPTS.c.delivery)).all())
    assert [bytes(key) for key in left] == [young]
    assert await bench.database.read(dead_letters.count_open) == 1


async def _write_letter(bench: Bench, key: bytes) -> None:
    row = {
        "id": bytes(16), "workspace": "default", "source": "", "kind": "delivery", "arrival": b"",
        "arrival_key": key.hex(), "position": 0, "reason": "attempts", "attempts": 3,
        "failed_ms": 0, "raw": b"{}", "delivery": key, "route": "rte_main",
    }  # fmt: skip
    await bench.database.write(lambda tx: tx.execute(insert(DEAD_LETTERS), row) and None)


async def test_pruning_searches_no_table_on_the_only_writer(bench: Bench) -> None:
    if not isinstance(bench.database, SqliteDatabase):
        pytest.skip("PostgreSQL has more than one writer")
    # Several rows in every table: of one alone SQLite may take an index that it takes for no more.
    for number in range(3):
        body = make_body(number, message_id=f"m-{number}")
        await bench.ledger.tell(make_source(), [body], days_ago=WINDOW_DAYS + 2)
    long_ago = bench.ledger.now_ms - 3 * WINDOW_MS
    await bench.owe(3, state=State.DONE, made_ms=long_ago, done_ms=long_ago)
    await bench.owe(3, days_ago=WINDOW_DAYS + 2, deadline_ms=bench.ledger.now_ms + DAY_MS)
    await bench.database.write(_write_old_rows)

    with scans_of(bench.database) as scans:
        await bench.maintenance.prune()

    assert scans == []
    assert [await bench.count(one.table) for one in FORGET] == [0] * len(FORGET)


def _write_old_rows(tx: Connection) -> None:
    """Write some rows to each table that forgets; no time in them is later than 1970."""
    tx.execute(update(FACTS).values(changed_ms=0))
    for forgetting in FORGET:
        columns = forgetting.table.columns
        rows = [
            {one.name: _old_value(one.type.python_type, number) for one in columns}
            for number in range(3)
        ]
        tx.execute(insert(forgetting.table), rows)


def _old_value(type_: type[object], number: int) -> object:
    if type_ is str:
        return f"old {number}"
    return b"old %d" % number if type_ is bytes else number


async def test_old_rows_are_found_however_far_apart_they_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "WALK_ROWS", 4)
    monkeypatch.setattr("mailonce.queue.maintain.SLICE_ROWS", 3)
    messages = [f"m-{number:02}" for number in range(30)]
    await bench.ledger.tell(make_source(), [make_body(id_, message_id=id_) for id_ in messages])
    # A whole slice of them, then none for long, and the last.
    old = [*messages[:5], messages[17], messages[-1]]
    change = update(FACTS).where(FACTS.c.message_id.in_(old)).values(changed_ms=0)
    await bench.database.write(lambda tx: tx.execute(change) and None)

    pruned = await bench.maintenance.prune()

    left = await bench.database.read(lambda tx: list(tx.scalars(select(FACTS.c.message_id))))
    assert sorted(left) == [message for message in messages if message not in old]
    assert pruned.rows == len(old)


async def test_a_command_with_a_smaller_window_forgets_no_more_than_the_servers(
    bench: Bench,
) -> None:
    await bench.maintenance.keep()
    await bench.ledger.tell(make_source(), [make_body(1)], days_ago=WINDOW_DAYS - 2)
    command = Maintenance(
        bench.database, Metrics(), bench._flush, new_id=Clock().new_id, window_days=3, facts_days=3
    )

    await command.prune()

    assert await bench.count(EVENTS) == 1
    assert await bench.count(FACTS) == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_step_that_fails_keeps_no_other_from_its_turn(database: Database) -> None:
    async def fail() -> None:
        raise UnavailableError("what was counted cannot be written")

    maintenance = Maintenance(
        database, Metrics(), fail, new_id=Clock().new_id, window_days=35, facts_days=400
    )
    maintenance.start()
    try:
        async with asyncio.timeout(60):
            # Pruning starts the clock of the first generation.
            while (await database.head()).rotated_ms == 0:
                await asyncio.sleep(0.05)
    finally:
        await maintenance.stop()


async def test_a_server_puts_its_window_in_force_and_a_command_does_not(
    database_url: str, tmp_path: Path
) -> None:
    seen = []
    for window_days, maintains in ((20, True), (3, False)):
        settings = read_settings(
            database=database_url, data_dir=tmp_path, master_key="one", window_days=window_days
        )
        service = await build_service(settings)
        await service.start(maintains=maintains)
        seen.append((await service.database.read(housekeeping.retention)).window_days)
        await service.stop()

    assert seen == [20, 20]


async def test_sends_that_need_a_person_are_counted(database: Database) -> None:
    office = await Office(database).open()
    metrics = office.metrics

    async def flush() -> None:
        """Nothing was counted in memory."""

    maintenance = Maintenance(
        database, metrics, flush, new_id=Clock().new_id, window_days=WINDOW_DAYS, facts_days=400
    )
    try:
        await office.add_sender()
        await office.submit(make_request("a@example.com", "b@example.com", "c@example.com"))
        keys = [row["key"] for row in await office.rows()]
        unknown = update(SENDS).where(SENDS.c.key != keys[0]).values(send_state=SendState.UNKNOWN)
        dead = update(SENDS).where(SENDS.c.key == keys[1]).values(state=State.DEAD)
        await database.write(lambda tx: [tx.execute(change) for change in (unknown, dead)])

        await maintenance.count_sends()
    finally:
        await office.close()

    shown = metrics.render(is_named=False).decode()
    assert "mailonce_sends_unknown 2.0" in shown
    assert "mailonce_sends_need_person 1.0" in shown
