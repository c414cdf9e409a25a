"""Everything is bounded, and what is full says so; pruning keeps nobody waiting."""

import asyncio
import hmac
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from tests.acceptance import sql
from tests.acceptance.harness import SETTINGS, Server, event, running
from tests.acceptance.load import post_all
from tests.commands import Shell
from tests.servers import wait_for
from tests.stopwatch import Stopwatch

DAY_S = 86_400


@contextmanager
def stalled(url: str, seconds: float) -> Iterator[None]:
    """Hold up every writer for a while."""
    if not url.startswith("sqlite"):
        with sql.held(url, "LOCK TABLE claims_0, claims_1 IN ACCESS EXCLUSIVE MODE"):
            yield
        return
    with closing(
        sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=10)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        time.sleep(seconds)
        connection.execute("ROLLBACK")


async def test_a_full_queue_answers_503_and_loses_nothing(
    database_url: str, tmp_path: Path
) -> None:
    settings = SETTINGS + "\n[limits]\nqueue_events_max = 5\nbatch_events_max = 2\n"
    bodies = [event(n) for n in range(40)]
    with running(Server(tmp_path / "server", database_url, settings)) as server:
        with stalled(database_url, 0):
            during = await post_all([server.url], bodies, clients=40)
        after = await post_all([server.url], bodies, clients=4)

        assert 503 in during.codes
        assert set(during.codes) <= {200, 503}
        assert after.codes == [200] * 40
        stored = [row["raw"]["id"] for row in server.all_events(raw=1)]
        assert sorted(stored) == sorted(body["id"] for body in bodies)


def test_a_full_queue_says_when_to_come_back(database_url: str, tmp_path: Path) -> None:
    settings = SETTINGS + "\n[limits]\nqueue_events_max = 1\nbatch_events_max = 1\n"
    with running(Server(tmp_path / "server", database_url, settings)) as server:
        with stalled(database_url, 0.2):
            answers: list[tuple[int, str | None]] = []

            def post(number: int) -> None:
                answer = server.post(event(number))
                answers.append((answer.status_code, answer.headers.get("Retry-After")))

            threads = [threading.Thread(target=post, args=(n,)) for n in range(12)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)
        for thread in threads:
            thread.join()

        assert (503, "2") in answers


def test_a_window_shorter_than_a_providers_horizon_is_refused_at_start(tmp_path: Path) -> None:
    (tmp_path / "mailonce.toml").write_text("window_days = 2\n" + SETTINGS)

    done = Shell(tmp_path).run_cold("serve", "--port", "0", "--smtp-port", "0")

    assert done.code == 2
    assert done.err.strip().splitlines() == [
        "mailonce: `window_days` = 2 is shorter than SESMetric retries (72 h); raise it"
    ]


async def test_no_insert_waits_behind_a_prune_beside_an_open_reader(server: Server) -> None:
    postgres = server.database.startswith("postgres")
    _plant_an_old_day(server)
    reader = "SELECT count(*) FROM events"

    with sql.held(server.database, reader) if postgres else _reading(server.database, reader):
        pruning = asyncio.create_task(
            asyncio.to_thread(lambda: server.api("/v1/prunings", method="POST"))
        )
        await asyncio.sleep(0.3)
        with Stopwatch() as watch:
            answers = await post_all([server.url], [event(n) for n in range(100)], clients=8)
    pruned = await pruning

    assert answers.codes == [200] * 100
    assert answers.slowest_s / watch.slowness < 1
    assert pruned.status_code == 200, pruned.text
    assert sql.query(server.database, "SELECT count(*) FROM arrivals WHERE day < 20000") == [(0,)]


def test_prune_keeps_the_window_and_what_still_waits_for_a_person(server: Server) -> None:
    server.post(event(1))
    server.post(b"unreadable")
    _plant_an_old_day(server)

    pruned = server.api("/v1/prunings", method="POST").json()

    assert pruned["days"] == 1
    assert server.get(f"/v1/events/{server.all_events()[0]['id']}")["raw"]["id"] == "evt_1"
    letters = server.get("/v1/dead-letters")["data"]
    assert [letter["raw"] for letter in letters] == ["unreadable"]
    assert server.post(event(1)).json()["status"] == "duplicate"


def _plant_an_old_day(server: Server) -> None:
    """Add a day that is far past the window, with one arrival."""
    # The server prunes once at its start, and would take the day away half planted.
    wait_for(lambda: "pruned" in server.log, what="the first pruning")
    url, day = server.database, 10_000
    if url.startswith("postgres"):
        for table in ("arrivals", "events", "copies"):
            sql.query(
                url,
                f"CREATE TABLE {table}_{day} PARTITION OF {table} "
                f"FOR VALUES FROM ({day}) TO ({day + 1})",
            )
    empty = "''" if url.startswith("postgres") else "x''"
    sql.query(
        url,
        "INSERT INTO arrivals (day, id, received_ms, workspace, source, arrival_key, status, "
        f"events, new, headers, body_bytes, body) VALUES ({day}, {empty}, 0, 'default', 'src_main',"
        f" 'old', 'accepted', 0, 0, {empty}, 0, {empty})",
    )


@contextmanager
def _reading(url: str, statement: str) -> Iterator[None]:
    with closing(
        sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    ) as connection:
        connection.execute("BEGIN")
        connection.execute(statement).fetchall()
        yield
        connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ("prot = 1\n", "`prot`"),
        ("port = 'x'\n", "`port`"),
        ("window_days = 0\n", "`window_days`"),
        ("database = 'mysql://x'\n", "`database`"),
        ("host = '0.0.0.0'\n", "`host`"),
        ("[sources.a]\n", "`sources.a.provider`"),
        ("[sources.a]\nprovider = 'nobody'\n", "`provider`"),
        ("[sources.a]\nprovider = 'sesmetric'\n", "`secret`"),
        ("[sources.a]\nprovider = 'postmark'\n", "no proof"),
        ("[sources.a]\nprovider = 'ses'\n", "topic_arns"),
        ("[sources.a]\nprovider = 'sesmetric'\nsecret='x'\npoison = 'eat'\n", "`sources.a.poison`"),
        ("[sources.a]\nprovider = 'postmark'\nallow_ips = ['x']\n", "`allow_ips`"),
        ("[net]\ntrusted_proxies = ['nginx']\n", "`net.trusted_proxies` has 'nginx'"),
        ("port = [\n", "is not TOML"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_one_sentence(
    tmp_path: Path, settings: str, names: str
) -> None:
    (tmp_path / "mailonce.toml").write_text(settings)

    # Somebody else on the machine may have the usual ports, which would be a second sentence.
    port = () if settings.startswith("port") else ("--port", "0")
    done = Shell(tmp_path).run("serve", "--smtp-port", "0", *port)

    assert done.code == 2, done.err
    assert names in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "mailonce-data" / "mailonce.db").exists()


def test_a_body_with_more_events_than_can_be_written_at_once_is_refused_by_name(
    server: Server,
) -> None:
    source = {"provider": "hmac", "secret": "k", "options": {"header": "x-sig"}}
    made = server.api("/v1/sources", method="POST", json={"name": "h", **source})
    assert made.status_code == 201, made.text

    def post(events: int) -> httpx.Response:
        items = [
            {"type": "delivered", "message_id": f"{events}-{n}", "recipient": f"a{n}@example.net"}
            for n in range(events)
        ]
        body = json.dumps(items).encode()
        headers = {"x-sig": hmac.new(b"k", body, sha256).hexdigest()}
        return server.post(body, source="h", headers=headers, timeout_s=60)

    most, more = post(5_000), post(5_001)

    assert (most.status_code, most.json()["new"]) == (200, 5_000)
    assert more.status_code == 413
    assert "limits.arrival_events_max" in more.json()["detail"]
