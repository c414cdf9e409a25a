"""What is proven but cannot be read: one dead letter for all its copies, kept whole, retried."""

import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import SETTINGS, Server, event, running

SETTINGS_HERE = (
    SETTINGS
    + """
[sources.gun]
provider = "mailgun"
secret = "k"
poison = "retry"
poison_attempts = 2
"""
)
POISON = b'{"id": 7, "type": []}'


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Any:
    with running(Server(tmp_path / "server", database_url, SETTINGS_HERE)) as running_:
        yield running_


def _hmac_source(elements: str) -> dict[str, Any]:
    options = {"header": "x-sig", "elements": elements}
    return {"provider": "hmac", "secret": "k", "options": options}


def _post_items(server: Server, name: str, pad: int) -> Any:
    items = [
        {
            "type": "delivered",
            "message_id": f"{name}-{number}",
            "recipient": f"a{number}@example.net",
            "pad": "p" * pad,
        }
        for number in range(10)
    ]
    body = json.dumps({"items": items}).encode()
    headers = {"x-sig": hmac.new(b"k", body, sha256).hexdigest()}
    return server.post(body, source="h", headers=headers)


def _mailgun(token: str, what: Any) -> bytes:
    """A body whose signature is proven and whose event cannot be read."""
    now = str(int(time.time()))
    signature = hmac.new(b"k", (now + token).encode(), sha256).hexdigest()
    signed = {"timestamp": now, "token": token, "signature": signature}
    return json.dumps({"signature": signed, "event-data": what}).encode()


def _letters(server: Server, **params: Any) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = server.get("/v1/dead-letters", **params)["data"]
    return data


def test_a_large_body_is_kept_whole_and_can_be_retried(server: Server) -> None:
    made = server.api("/v1/sources", method="POST", json={"name": "h", **_hmac_source("/wrong")})
    assert _post_items(server, "small", 10).json()["status"] == "dead_letter"
    assert _post_items(server, "large", 200_000).json()["status"] == "dead_letter"
    source = made.json()["id"]
    server.api(f"/v1/sources/{source}", method="PUT", json=_hmac_source("/items"))

    letters = _letters(server)
    retried = [
        server.api(f"/v1/dead-letters/{letter['id']}/retry", method="POST") for letter in letters
    ]

    assert [answer.status_code for answer in retried] == [200, 200]
    assert all(answer.json()["resolved_at"] for answer in retried)
    assert len(server.all_events()) == 20
    assert _letters(server) == []
    # A list shows the beginning of each, and how long it is.
    assert max(len(letter["raw"]) for letter in letters) < 100_000
    assert max(letter["raw_bytes"] for letter in letters) > 2_000_000


def test_copies_of_poison_are_one_letter_that_counts_them(server: Server) -> None:
    bodies = [POISON, b'{"id": 8, "type": []}']

    statuses = [server.post(bodies[number % 2]).json()["status"] for number in range(6)]

    assert statuses == ["dead_letter"] * 2 + ["duplicate"] * 4
    assert [letter["attempts"] for letter in _letters(server)] == [3, 3]


def test_poison_whose_signature_is_new_each_time_ends_as_one_letter(server: Server) -> None:
    answers = [
        server.post(_mailgun(f"{number:050}", "no object"), source="gun", headers={})
        for number in range(5)
    ]
    other = server.post(_mailgun("x" * 50, "another"), source="gun", headers={})

    assert [answer.status_code for answer in answers] == [503, 503, 200, 200, 200]
    [letter] = _letters(server)
    assert letter["attempts"] == 5
    assert other.status_code == 503, "other content is counted on its own"


def test_a_retry_that_fails_is_counted_and_says_why(server: Server) -> None:
    server.post(POISON)
    [letter] = _letters(server)

    answers = [
        server.api(f"/v1/dead-letters/{letter['id']}/retry", method="POST") for _ in range(2)
    ]

    assert {answer.status_code for answer in answers} == {400}
    [after] = _letters(server)
    assert (after["attempts"], after["reason"]) == (3, letter["reason"])
    assert after["last_error"] in answers[1].json()["detail"]


def test_a_retry_without_its_source_is_counted_too(server: Server) -> None:
    made = server.api("/v1/sources", method="POST", json={"name": "h", **_hmac_source("/wrong")})
    assert _post_items(server, "small", 1).json()["status"] == "dead_letter"
    assert server.api(f"/v1/sources/{made.json()['id']}", method="DELETE").status_code == 204
    [letter] = _letters(server)

    answer = server.api(f"/v1/dead-letters/{letter['id']}/retry", method="POST")

    [after] = _letters(server)
    assert (answer.status_code, after["attempts"]) == (404, letter["attempts"] + 1)
    assert "its source was removed; add it again" in after["last_error"]
    assert after["last_error"] in answer.json()["detail"]


def test_what_was_read_again_is_never_called_dismissed(server: Server) -> None:
    """Two people at once: one dismisses the letter that the other retries."""
    made = server.api("/v1/sources", method="POST", json={"name": "h", **_hmac_source("/wrong")})
    for number in range(12):
        assert _post_items(server, f"m{number}", 1).json()["status"] == "dead_letter"
    source = made.json()["id"]
    server.api(f"/v1/sources/{source}", method="PUT", json=_hmac_source("/items"))

    with ThreadPoolExecutor(2) as people:
        for letter in _letters(server):
            paths = [f"/v1/dead-letters/{letter['id']}/{act}" for act in ("retry", "dismiss")]
            answers = list(people.map(lambda path: server.api(path, method="POST"), paths))
            assert {answer.status_code for answer in answers} <= {200, 409}

    stand = {one["message_id"].partition("-")[0] for one in server.all_events()}
    letters = _letters(server, resolved="true")
    read = {_name_in(one) for one in letters if one["resolution"] == "retried"}
    assert len(letters) == 12
    assert stand == read


def _name_in(letter: dict[str, Any]) -> str:
    items: list[dict[str, Any]] = json.loads(letter["raw"])["items"]
    return str(items[0]["message_id"]).partition("-")[0]


def test_a_letter_of_a_source_that_was_removed_is_read_as_of_another(server: Server) -> None:
    made = server.api("/v1/sources", method="POST", json={"name": "h", **_hmac_source("/wrong")})
    assert _post_items(server, "small", 1).json()["status"] == "dead_letter"
    [letter] = _letters(server)
    path = f"/v1/dead-letters/{letter['id']}/retry"

    early = server.api(path, method="POST", json={"source": "main"})
    server.api(f"/v1/sources/{made.json()['id']}", method="DELETE")
    server.api("/v1/sources", method="POST", json={"name": "h", **_hmac_source("/items")})
    nobody = server.api(path, method="POST", json={"source": "nosuch"})
    retried = server.api(path, method="POST", json={"source": "h"})

    assert early.status_code == 400
    assert "its own source 'h' is there" in early.json()["detail"]
    assert nobody.status_code == 404
    assert retried.status_code == 200, retried.text
    assert len(server.all_events()) == 10
    assert _letters(server) == []


def test_an_unreadable_element_is_one_letter_however_often_its_array_comes(
    server: Server,
) -> None:
    made = server.api("/v1/sources", method="POST", json={"name": "h", **_hmac_source("/items")})
    assert made.status_code == 201

    def post(number: int) -> Any:
        good = {"type": "delivered", "message_id": f"m{number}", "recipient": "a@example.net"}
        body = json.dumps({"items": ["no event", good]}).encode()
        headers = {"x-sig": hmac.new(b"k", body, sha256).hexdigest()}
        return server.post(body, source="h", headers=headers).json()

    assert [post(number)["new"] for number in (1, 1, 2)] == [1, 0, 1]
    [letter] = _letters(server)
    assert letter["attempts"] == 3


def test_an_event_beside_poison_is_not_held_up(server: Server) -> None:
    for number in range(3):
        server.post(POISON)
        assert server.post(event(number)).json()["status"] == "accepted"


def test_a_letter_that_was_dismissed_is_not_read_again(server: Server) -> None:
    assert server.post(POISON).json()["status"] == "dead_letter"
    [letter] = server.get("/v1/dead-letters")["data"]
    path = f"/v1/dead-letters/{letter['id']}"
    server.api(f"{path}/dismiss", method="POST", json={"reason": "erasure"}).raise_for_status()

    again = server.api(f"{path}/retry", method="POST")

    assert again.status_code == 409
    assert "is closed already: dismissed (erasure), at " in again.json()["detail"]
