"""One key and one body over every attempt and redelivery; a reprocessing has its own."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from standardwebhooks.webhooks import Webhook

from tests.acceptance.endpoint import Endpoint, serving
from tests.acceptance.harness import HTTP, SETTINGS, Server, event, running
from tests.servers import wait_for


def start(folder: Path, database_url: str, endpoint: Endpoint) -> Server:
    settings = f'{SETTINGS}\n[net]\nallow_hosts = ["127.0.0.1:{endpoint.port}"]\n'
    return Server(folder / "server", database_url, settings)


def make_route(server: Server, endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    body = {"name": "crm", "url": endpoint.url, "waits_s": [0.1] * 5, **fields}
    made = server.api("/v1/routes", method="POST", json=body)
    assert made.status_code == 201, made.text
    route: dict[str, Any] = made.json()
    return route


def rerun(server: Server, noun: str, **body: Any) -> dict[str, Any]:
    made = server.api(f"/v1/{noun}", method="POST", json=body)
    assert made.status_code == 202, made.text
    path = f"/v1/{noun}/{made.json()['id']}"
    wait_for(lambda: server.get(path)["state"] == "finished", what=f"{noun} to finish")
    done: dict[str, Any] = server.get(path)
    return done


def test_a_key_and_a_body_never_change_unless_someone_reprocesses(
    database_url: str, tmp_path: Path
) -> None:
    with serving(503, 500) as endpoint, running(start(tmp_path, database_url, endpoint)) as server:
        route = make_route(server, endpoint)
        server.post(event(1, "bounce", bounce_type="hard"))
        wait_for(lambda: len(endpoint.requests) == 3, what="two failures and a success")
        [listed] = server.get("/v1/deliveries")["data"]
        wait_for(lambda: _shown(server, listed)["state"] == "delivered", what="the delivery")
        changed = {"url": endpoint.url, "mapping": {"to": "$.recipient"}, "waits_s": [0.1]}
        assert server.api("/v1/routes/crm", method="PUT", json=changed).status_code == 200

        dry = server.api("/v1/redeliveries", method="POST", json={"dry_run": True}).json()
        again = rerun(server, "redeliveries", route="crm", since="2020-01-01")
        wait_for(lambda: len(endpoint.requests) == 4, what="the redelivery")
        anew = rerun(server, "reprocessings", type="bounced")
        wait_for(lambda: len(endpoint.requests) == 5, what="the reprocessing")

        *first, redelivered, reprocessed = endpoint.requests
        sent = json.loads(first[0].body)
        key = sha256(f"{sent['identity']}|{route['id']}".encode()).hexdigest()
        for request in (*first, redelivered):
            for header in ("x-idempotency-key", "idempotency-key", "webhook-id"):
                assert request.headers[header] == key
            assert request.body == first[0].body
            Webhook(route["secret"]).verify(request.body, request.headers)
        revision = sha256(f"{sent['identity']}|{route['id']}|{anew['id']}".encode()).hexdigest()
        assert reprocessed.headers["x-idempotency-key"] == revision
        assert json.loads(reprocessed.body) == {"to": "a1@example.net"}
        assert [one.headers["x-mailonce-attempt"] for one in endpoint.requests] == list("12341")
        assert [one.headers.get("x-mailonce-redelivery") for one in endpoint.requests] == [
            None, None, None, "1", None,
        ]  # fmt: skip
        expected = {
            "dry_run": True,
            "kind": "redelivery",
            "total": 1,
            "mail_deleted": 0,
            "route_removed": 0,
        }
        assert dry == expected
        assert (again["done"], anew["done"]) == (1, 1)
        schema = HTTP.get(f"{server.url}/v1/schemas/mailonce.event/1").json()
        Draft202012Validator(schema).validate(sent)
        _check_history(server, key)


def test_a_dead_letter_tells_its_attempts_and_is_delivered_when_retried(
    database_url: str, tmp_path: Path
) -> None:
    with (
        serving(*[500] * 2) as endpoint,
        running(start(tmp_path, database_url, endpoint)) as server,
    ):
        make_route(server, endpoint, waits_s=[0.1])
        server.post(event(1))
        wait_for(lambda: _letters(server), what="a dead letter")
        [letter] = _letters(server)
        owed = server.get("/v1/undelivered")

        retried = server.api(f"/v1/dead-letters/{letter['id']}/retry", method="POST").json()
        wait_for(lambda: server.get("/v1/undelivered")["total"] == 0, what="the delivery")

        shown = server.get(f"/v1/dead-letters/{letter['id']}")
        assert (letter["kind"], letter["reason"], letter["attempts"]) == ("delivery", "attempts", 2)
        assert letter["status"] == 500
        assert letter["key"] == endpoint.requests[0].headers["x-idempotency-key"]
        assert letter["raw"].encode() == endpoint.requests[0].body
        assert letter["last_error"] is None or "500" in letter["last_error"]
        assert [one["status"] for one in shown["history"]] == [500, 500, 204]
        assert retried["resolved_at"] is not None
        assert _letters(server) == []
        assert (owed["total"], owed["routes"][0]["failed"], owed["data"][0]["state"]) == (
            1,
            1,
            "failed",
        )
        assert endpoint.requests[2].headers["x-mailonce-redelivery"] == "1"


def test_the_retry_of_a_closed_letter_is_harmless_and_then_refused(
    database_url: str, tmp_path: Path
) -> None:
    with (
        serving(500, 500) as endpoint,
        running(start(tmp_path, database_url, endpoint)) as server,
    ):
        route = make_route(server, endpoint, waits_s=[])
        server.post(event(1))
        wait_for(lambda: _letters(server), what="a dead letter")
        [first] = _letters(server)
        path = f"/v1/dead-letters/{first['id']}/retry"
        server.api(f"/v1/routes/{route['id']}/off", method="POST", json={"reason": "repair"})

        retried, repeated = (server.api(path, method="POST") for _ in range(2))
        server.api(f"/v1/routes/{route['id']}/on", method="POST")
        wait_for(lambda: _letters(server), what="the letter of the retry")
        [second] = _letters(server)
        failed_again = server.api(path, method="POST")
        server.api(f"/v1/dead-letters/{second['id']}/retry", method="POST")
        wait_for(lambda: server.get("/v1/undelivered")["total"] == 0, what="the delivery")
        delivered = server.api(path, method="POST")

        assert (retried.status_code, repeated.status_code) == (200, 200)
        assert [one.json()["already_retried"] for one in (retried, repeated)] == [False, True]
        assert repeated.json()["resolved_at"] == retried.json()["resolved_at"]
        closed = f"{first['id']} is closed already: retried, at {retried.json()['resolved_at']}; "
        assert failed_again.status_code == delivered.status_code == 409
        assert failed_again.json()["detail"] == (
            f"{closed}its retry failed again: {second['id']} is open"
        )
        assert delivered.json()["detail"] == f"{closed}its retry was delivered"
        assert len(endpoint.requests) == 3


def test_a_retry_without_its_route_changes_nothing_until_the_route_is_put_back(
    database_url: str, tmp_path: Path
) -> None:
    with (
        serving(500) as endpoint,
        running(start(tmp_path, database_url, endpoint)) as server,
    ):
        route = make_route(server, endpoint, waits_s=[])
        server.post(event(1))
        wait_for(lambda: _letters(server), what="a dead letter")
        assert server.api(f"/v1/routes/{route['id']}", method="DELETE").status_code == 204

        [letter] = _letters(server)
        answer = server.api(f"/v1/dead-letters/{letter['id']}/retry", method="POST")
        after = _letters(server)
        again = make_route(server, endpoint, waits_s=[])
        retried = server.api(f"/v1/dead-letters/{letter['id']}/retry", method="POST")
        wait_for(lambda: server.get("/v1/undelivered")["total"] == 0, what="the delivery")

        assert (answer.status_code, after) == (400, [letter])
        assert answer.json()["detail"] == (
            "its route crm was removed; put the route back with `mailonce route add crm …` "
            "(`--secret` keeps its secret; else give its endpoint the new one), then "
            "`mailonce dead retry --route crm`"
        )
        assert (again["id"], retried.status_code) == (route["id"], 200)
        assert len({one.headers["x-idempotency-key"] for one in endpoint.requests}) == 1
        assert len(endpoint.requests) == 2


def test_a_private_endpoint_is_refused_with_the_way_out(server: Server) -> None:
    for url in (
        "http://127.0.0.1:8123/x",
        "http://[::1]:8080/",
        "http://169.254.169.254/",
        "ftp:x",
    ):
        answer = server.api("/v1/routes", method="POST", json={"name": "near", "url": url})

        assert answer.status_code == 400, url
        assert "route 'near': `url`" in answer.json()["detail"]
        if "//" in url:
            assert "net.allow_hosts" in answer.json()["detail"]
    assert server.get("/v1/routes")["data"] == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_rotated_secret_signs_beside_the_new_one(database_url: str, tmp_path: Path) -> None:
    with serving() as endpoint, running(start(tmp_path, database_url, endpoint)) as server:
        old = make_route(server, endpoint)["secret"]
        new = server.api("/v1/routes/crm/rotate", method="POST", json={"overlap_s": 60}).json()
        server.post(event(1))
        wait_for(lambda: len(endpoint.requests) == 1, what="the first")
        last = server.api("/v1/routes/crm/rotate", method="POST", json={"overlap_s": 0}).json()
        server.post(event(2))
        wait_for(lambda: len(endpoint.requests) == 2, what="the second")

        both, alone = endpoint.requests
        shown = server.api("/v1/routes/crm").text
        for secret in (old, new["secret"]):
            Webhook(secret).verify(both.body, both.headers)
            assert secret not in shown
        assert len(both.headers["webhook-signature"].split()) == 2
        assert len(alone.headers["webhook-signature"].split()) == 1
        Webhook(last["secret"]).verify(alone.body, alone.headers)
        assert len(last["secrets"]) == 1


def _shown(server: Server, delivery: dict[str, Any]) -> Any:
    return server.get(f"/v1/deliveries/{delivery['id']}")


def _letters(server: Server) -> list[dict[str, Any]]:
    letters: list[dict[str, Any]] = server.get("/v1/dead-letters", kind="delivery")["data"]
    return letters


def _check_history(server: Server, key: str) -> None:
    wait_for(
        lambda: [one["state"] for one in server.get("/v1/deliveries")["data"]] == ["delivered"] * 2,
        what="everything to be done",
    )
    shown = server.get(f"/v1/deliveries/dlv_{key}")
    assert [one["status"] for one in shown["history"]] == [503, 500, 204, 204]
    assert (shown["attempts"], shown["redeliveries"], shown["route_name"]) == (4, 1, "crm")
    [entry, *deliveries] = server.get("/v1/messages/m1")["recipients"][0]["timeline"]
    assert (entry["kind"], {one["kind"] for one in deliveries}) == ("event", {"delivery"})
    assert {one["event"] for one in deliveries} == {entry["id"]}
    assert len(deliveries) == 2
    by_event = server.get("/v1/deliveries", event=entry["id"], state="delivered", limit=1)
    following = server.get("/v1/deliveries", event=entry["id"], cursor=by_event["next"])
    rows = [*by_event["data"], *following["data"]]
    assert {one["id"] for one in rows} == {one["id"] for one in deliveries}
    assert server.get("/v1/undelivered") == {
        "total": 0, "oldest_at": None, "routes": [], "data": [], "next": None,
    }  # fmt: skip
