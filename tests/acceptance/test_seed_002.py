"""Seed 002's checklist, line by line, against a running server."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import sql
from tests.acceptance.harness import SETTINGS, Server, event, running

NOW = int(time.time())


def test_line_1_the_key_is_the_providers_event_id_or_is_made_of_content(server: Server) -> None:
    delivery = {
        "RecordType": "Delivery",
        "MessageID": "pm1",
        "Recipient": "ann@example.net",
        "DeliveredAt": "2026-11-01T10:00:00.1230000Z",
        "ServerID": 1,
    }
    basic = {"Authorization": "Basic aG9vazp3b3Jk"}

    by_id = [server.post(event(1)).json()["status"] for _ in range(2)]
    by_content = [
        server.post(
            json.dumps({**delivery, "ServerID": n}).encode(), source="hooks", headers=basic
        ).json()["status"]
        for n in range(2)
    ]

    assert by_id == ["accepted", "duplicate"]
    assert by_content == ["accepted", "duplicate"]


def test_line_2_effects_run_for_the_first_copy_only(server: Server) -> None:
    bounce = event(1, "bounce", bounce_type="hard")

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(
            answer.json()["status"] for answer in pool.map(server.post, [bounce] * 24)
        )

    assert statuses == ["accepted"] + ["duplicate"] * 23
    assert len(sql.query(server.database, "SELECT * FROM suppressions")) == 1
    assert server.get("/v1/stats")["data"][0]["count"] == 1


def test_line_3_a_second_bounce_keeps_the_first_reason_and_time(server: Server) -> None:
    for number, at in ((2, NOW - 50), (1, NOW - 100), (3, NOW - 10)):
        server.post(
            event(number, "bounce", bounce_type="hard", recipient="ann@example.net")
            | {"timestamp": at, "reason": f"550 {number}"}
        )

    causes = server.get("/v1/suppressions/ann@example.net")["causes"]

    assert [(cause["cause"], cause["reason"]) for cause in causes] == [("hard", "550 1")]


def test_line_4_status_does_not_go_back_for_an_older_event(server: Server) -> None:
    message = {"message_id": "m", "recipient": "ann@example.net"}
    server.post(event(1, "delivery", **message, timestamp=NOW - 10))

    server.post(event(2, "deferred", **message, timestamp=NOW - 100))
    server.post(event(3, "sent", **message, timestamp=NOW - 200))

    recipient = server.get("/v1/messages/m")["recipients"][0]
    assert recipient["status"] == "delivered"


@pytest.mark.parametrize(
    ("terminal", "status"),
    [
        ({"type": "bounce", "bounce_type": "hard"}, "hard"),
        ({"type": "complaint"}, "complained"),
        ({"type": "rejected"}, "rejected"),
    ],
)
def test_line_5_terminal_states_survive_a_late_delivered(
    server: Server, terminal: dict[str, Any], status: str
) -> None:
    message = {"message_id": "m", "recipient": "ann@example.net"}
    server.post({**event(1, **message, timestamp=NOW - 100), **terminal})

    server.post(event(2, "delivery", **message, timestamp=NOW))

    assert server.get("/v1/messages/m")["recipients"][0]["status"] == status


def test_line_6_nothing_but_the_record_runs_before_the_2xx(server: Server) -> None:
    """The answer needs the ledger alone: no outgoing call, no job, no further table is touched."""
    written_before = _row_counts(server)

    answer = server.post(event(1))

    grown = {
        table
        for table, rows in _row_counts(server).items()
        if rows != written_before[table] and table != "head"
    }
    assert answer.status_code == 200
    assert {name.removesuffix("_0").removesuffix("_1") for name in grown} == {
        "claims", "arrivals", "events", "facts", "counts",
    }  # fmt: skip


def test_line_7_poison_is_kept_as_a_dead_letter_after_a_finite_count(
    database_url: str, tmp_path: Path
) -> None:
    settings = SETTINGS.replace(
        'provider = "sesmetric"', 'provider = "sesmetric"\npoison = "retry"\npoison_attempts = 3'
    )
    with running(Server(tmp_path / "server", database_url, settings)) as server:
        answers = [server.post(b"{not json") for _ in range(5)]

        assert [answer.status_code for answer in answers] == [503, 503, 503, 200, 200]
        assert answers[3].json()["status"] == "dead_letter"
        letters = server.get("/v1/dead-letters")["data"]
        assert {letter["raw"] for letter in letters} == {"{not json"}


def test_line_8_a_replayed_batch_changes_nothing(server: Server) -> None:
    bodies = [
        event(n, kind, message_id=f"m{n % 7}", recipient=f"a{n % 5}@example.net")
        | {"bounce_type": "hard"}
        for n, kind in enumerate(["delivery", "open", "click", "bounce", "complaint"] * 8)
    ]
    for body in bodies:
        server.post(body)
    before = server.state()

    replay = bodies * 3
    random.Random(7).shuffle(replay)
    with ThreadPoolExecutor(8) as pool:
        statuses = {answer.json()["status"] for answer in pool.map(server.post, replay)}

    assert statuses == {"duplicate"}
    assert server.state() == before


def _row_counts(server: Server) -> dict[str, int]:
    tables = (
        "claims_0", "claims_1", "arrivals", "events", "copies", "facts", "suppressions",
        "counts", "conflicts", "dead_letters", "refusals", "poison", "sources", "keys", "head",
    )  # fmt: skip
    return {
        table: sql.query(server.database, f"SELECT count(*) FROM {table}")[0][0] for table in tables
    }
