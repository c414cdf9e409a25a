"""The same key with other content is never dropped in silence."""

import json
from typing import Any

from tests.acceptance.harness import Server, event


def test_a_conflict_is_acknowledged_kept_and_shown_with_its_fields(server: Server) -> None:
    first = event(1, "delivery", reason="250 ok")
    other = {**first, "type": "bounce", "bounce_type": "hard"}
    server.post(first)

    answers = [server.post(other) for _ in range(2)]

    assert [(a.status_code, a.json()["status"]) for a in answers] == [(200, "conflict")] * 2
    conflicts = server.get("/v1/conflicts")["data"]
    assert len(conflicts) == 1
    assert {field["field"] for field in conflicts[0]["differs"]} == {"type", "bounce_type"}


def test_a_signed_conflict_joins_facts_and_suppressions_in_either_order(server: Server) -> None:
    states = []
    for name, order in (("x", (0, 1)), ("y", (1, 0))):
        pair = [
            event(name, "delivery", message_id="m", timestamp=1_794_000_000),
            event(name, "bounce", message_id="m", timestamp=1_794_000_000, bounce_type="hard"),
        ]
        for index in order:
            server.post(pair[index])
        message = server.get("/v1/messages/m")
        states.append(
            [
                (r["status"], sorted(r["facts"]))
                for r in message["recipients"]
                if r["recipient"] == f"a{name}@example.net"
            ]
        )
        assert server.get(f"/v1/suppressions/a{name}@example.net")["suppressed"] is True

    assert states[0] == states[1] == [("hard", ["bounced", "delivered"])]
    assert sum(row["count"] for row in server.get("/v1/stats")["data"]) == 2


def test_another_event_under_a_known_event_id_is_kept_shown_and_delivers_its_effects(
    server: Server,
) -> None:
    def envelope(word: str, recipient: str, link: str) -> dict[str, Any]:
        payload = {
            "eventId": "E1",
            "messageId": "shared-id",
            "recipients": [recipient],
            "eventTimestamp": "2026-11-01T10:00:00Z",
            "link": link,
        }
        return {"event_type": word, "payload": payload}

    first = envelope("complaint", "ann@example.net", "https://a.example/")
    other = envelope("complaint", "ann@example.net", "https://b.example/")

    answers = [server.post(body).json()["status"] for body in (first, other, other, first)]

    assert answers == ["accepted", "conflict", "duplicate", "duplicate"]
    [conflict] = server.get("/v1/conflicts")["data"]
    assert [field["field"] for field in conflict["differs"]] == ["link"]
    assert len(server.get("/v1/events", message_id="shared-id")["data"]) == 2


def test_a_conflict_that_nothing_signs_changes_nothing(server: Server) -> None:
    bounce = {
        "RecordType": "Bounce",
        "ID": 1,
        "Type": "SoftBounce",
        "MessageID": "pm",
        "Email": "ann@example.net",
        "BouncedAt": "2026-11-01T10:00:00Z",
    }
    basic = {"Authorization": "Basic aG9vazp3b3Jk"}
    server.post(json.dumps(bounce).encode(), source="hooks", headers=basic)

    forged = {**bounce, "Type": "HardBounce"}
    answer = server.post(json.dumps(forged).encode(), source="hooks", headers=basic)

    assert answer.json()["status"] == "conflict"
    assert server.get("/v1/messages/pm")["recipients"][0]["status"] == "soft"
    assert server.get("/v1/suppressions/ann@example.net")["suppressed"] is False
    assert len(server.get("/v1/conflicts")["data"]) == 1
