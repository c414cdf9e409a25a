"""Several doors on one PostgreSQL: one winner, no deadlock, no door waits for another's trouble."""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailonce.core.events.key import KeyScope
from mailonce.providers.sesmetric import EVENT
from tests.acceptance import sql
from tests.acceptance.harness import Server, event, running
from tests.acceptance.load import post_all
from tests.commands import Shell
from tests.servers import PostgresServer, wait_for
from tests.stopwatch import Stopwatch


@pytest.fixture
def doors(empty_postgres_url: str, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two door processes on one database; they start at once, so migrations race, too."""
    environment = {"MAILONCE_MASTER_KEY": "shared by both doors"}
    one = Server(tmp_path / "one", empty_postgres_url, environment=environment)
    two = Server(tmp_path / "two", empty_postgres_url, environment=environment)
    two.spawn()
    with running(one), running(two):
        yield one, two


async def test_of_64_clients_at_two_doors_one_is_first(doors: tuple[Server, Server]) -> None:
    urls = [door.url for door in doors]

    answers = await post_all(urls, [event(1)] * 64, clients=64)

    assert Counter(answers.statuses) == {"accepted": 1, "duplicate": 63}
    assert sql.query(doors[0].database, "SELECT count(*) FROM events") == [(1,)]


@pytest.mark.slow
async def test_overlapping_shuffled_batches_do_not_deadlock(
    doors: tuple[Server, Server], postgres: PostgresServer
) -> None:
    chance = random.Random(11)
    distinct = 0
    for round_ in range(100):
        bodies = [
            event(f"{round_}-{n}", "open", message_id=f"m{n % 3}", recipient="ann@example.net")
            for n in range(12)
        ]
        distinct += len(bodies)
        copies = bodies * 4
        chance.shuffle(copies)

        answers = await post_all([door.url for door in doors], copies, clients=24)

        assert Counter(answers.statuses) == {"accepted": 12, "duplicate": 36}
    assert "deadlock" not in postgres.log
    assert sql.query(doors[0].database, "SELECT count(*) FROM events") == [(distinct,)]


async def test_a_row_held_elsewhere_delays_only_arrivals_that_share_its_key(
    doors: tuple[Server, Server],
) -> None:
    """What a process leaves that is paused between its INSERT and its COMMIT."""
    door = doors[0]
    shared = event("shared")
    key = KeyScope("default", "sesmetric", "main").key(EVENT.inputs(shared))
    claim = f"INSERT INTO claims_0 VALUES ('\\x{key.hex()}', '\\x00', '\\x00')"

    with sql.held(door.database, claim):
        others = [event(n) for n in range(60)]
        sharing = asyncio.create_task(post_all([door.url], [shared], clients=1))
        with Stopwatch() as watch:
            answers = await post_all([door.url], others, clients=20)
        waited = await sharing

    again = await post_all([door.url], [shared], clients=1)
    assert answers.codes == [200] * 60
    assert answers.slowest_s / watch.slowness < 2
    assert waited.codes == [503]
    assert again.statuses == ["accepted"]


async def test_a_door_paused_under_load_holds_up_nobody(doors: tuple[Server, Server]) -> None:
    paused, other = doors
    bodies = [event(n) for n in range(200)]
    load = asyncio.create_task(post_all([paused.url], bodies, clients=32))
    await asyncio.sleep(0.05)

    os.kill(paused.pid, signal.SIGSTOP)
    with Stopwatch() as watch:
        answers = await post_all([other.url], bodies, clients=32)
    os.kill(paused.pid, signal.SIGCONT)
    late = await load

    assert answers.codes == [200] * 200
    assert watch.seconds < 10
    first = Counter(answers.statuses)["accepted"] + Counter(late.statuses)["accepted"]
    assert first == 200
    assert sql.query(other.database, "SELECT count(*) FROM events") == [(200,)]


@pytest.mark.slow
def test_doors_that_start_together_and_a_command_rotate_once(
    doors: tuple[Server, Server], tmp_path: Path
) -> None:
    assert doors[0].post(event(1)).json()["status"] == "accepted"
    url = doors[0].database
    for door in doors:
        door.stop()
        (door.folder / "server.log").write_text("")
    sql.query(url, "UPDATE head SET rotated_ms = rotated_ms - 36 * 86400000::bigint RETURNING 1")
    [(generation,)] = sql.query(url, "SELECT generation FROM head")

    for door in doors:
        door.spawn()
    environment = {"MAILONCE_DATABASE": url, **doors[0].environment}
    output = Shell(tmp_path, environment).ok("prune").err
    for door in doors:
        door.start()
        wait_for(lambda door=door: "pruned" in door.log, what="the first round of maintenance")

    assert "maintenance_failed" not in doors[0].log + doors[1].log + output
    assert sql.query(url, "SELECT generation FROM head") == [(generation + 1,)]
    assert doors[1].post(event(1)).json()["status"] == "duplicate"
    assert sql.query(url, "SELECT sum(count)::int FROM counts") == [(1,)]
