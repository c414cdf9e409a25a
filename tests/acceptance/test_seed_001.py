"""Seed 001's test plan, against a running server: replay, tamper, skew, fault, window."""

import time

from tests.acceptance import sql
from tests.acceptance.harness import Server, event, signed

DAY_S = 86_400


def test_a_replayed_event_takes_effect_once(server: Server) -> None:
    body = event(1, "open")

    answers = [server.post(body) for _ in range(20)]

    assert [answer.status_code for answer in answers] == [200] * 20
    assert [answer.json()["status"] for answer in answers] == ["accepted"] + ["duplicate"] * 19
    shown = server.get(f"/v1/events/{server.all_events()[0]['id']}")
    assert (len(server.all_events()), shown["copies"]) == (1, 19)
    assert server.get("/v1/stats")["data"][0]["count"] == 1
    assert server.get("/v1/messages/m1")["recipients"][0]["counts"] == {"opened": 1}


def test_a_tampered_byte_is_refused_and_nothing_is_stored(server: Server) -> None:
    body = b'{"id":"evt_1","type":"delivery"}'
    headers = signed(body)

    answer = server.post(body.replace(b"evt_1", b"evt_2"), headers=headers)

    assert answer.status_code == 401
    assert server.all_events() == []


def test_a_timestamp_an_hour_off_is_refused(server: Server) -> None:
    body = b'{"id":"evt_1","type":"delivery"}'

    answers = [
        server.post(body, headers=signed(body, seconds=int(time.time()) + offset))
        for offset in (-3600, 3600)
    ]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert server.all_events() == []


def test_a_fault_inside_record_does_not_poison_the_key(server: Server) -> None:
    body = event(1)

    with sql.broken_facts(server.database):
        during = server.post(body)
    after = server.post(body)

    assert during.status_code == 503
    assert int(during.headers["Retry-After"]) > 0
    assert (after.status_code, after.json()["status"]) == (200, "accepted")
    assert len(server.all_events()) == 1


def test_a_copy_that_comes_after_its_key_was_pruned_is_fresh(server: Server) -> None:
    body = event(1)
    server.post(body)

    _let_a_window_pass(server)
    inside = server.post(body).json()["status"]
    _let_a_window_pass(server)
    beyond = server.post(body).json()["status"]

    assert (inside, beyond) == ("duplicate", "accepted")


def test_an_event_sixty_days_old_is_remembered_for_a_full_window(server: Server) -> None:
    body = event(1, "bounce", bounce_type="hard", timestamp=int(time.time()) - 60 * DAY_S)
    server.post(body)

    server.api("/v1/prunings", method="POST")
    today = server.post(body).json()["status"]
    _let_a_window_pass(server)
    a_window_later = server.post(body).json()["status"]

    assert (today, a_window_later) == ("duplicate", "duplicate")
    assert len(server.all_events()) == 1
    assert server.get("/v1/suppressions/a1@example.net")["suppressed"] is True


def _let_a_window_pass(server: Server) -> None:
    """Say that the last rotation was a window ago, and prune."""
    past_ms = int(time.time() - 36 * DAY_S) * 1000
    [(before,)] = sql.query(server.database, "SELECT generation FROM head")
    sql.query(server.database, f"UPDATE head SET rotated_ms = {past_ms}")
    answer = server.api("/v1/prunings", method="POST")
    # By this call, or a moment before it by the server's own maintenance.
    [(after,)] = sql.query(server.database, "SELECT generation FROM head")
    assert after == before + 1, answer.text
