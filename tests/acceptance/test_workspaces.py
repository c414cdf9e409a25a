"""A key of one workspace sees and changes nothing of another, on any path."""

import json
import re
import time
from pathlib import Path
from typing import Any

from tests.acceptance.harness import HTTP, SECRET, SETTINGS, Server, event, running, signed
from tests.servers import wait_for

# Whatever belongs to the first workspace holds this word somewhere.
MARK = "alphaonly"
# What is no secret.
PUBLIC = {
    "/v1/providers", "/v1/schemas/mailonce.event/1", "/v1/schemas/mailonce.message/1",
}  # fmt: skip
# What says no more than what the key itself is.
OF_EVERYBODY = {("GET", "/v1/access")}
# What a key that sends may do.
OF_SENDERS = {
    ("GET", "/v1/sends"), ("POST", "/v1/sends"), ("GET", "/v1/sends/{send_id}"),
    ("POST", "/v1/sends/{send_id}/cancel"), ("GET", "/v1/templates"),
    ("GET", "/v1/templates/{template_name}"), ("POST", "/v1/templates/{template_name}/preview"),
}  # fmt: skip


def test_a_key_reaches_nothing_of_another_workspace_on_any_path(server: Server) -> None:
    alpha, beta = (_make(server, name) for name in ("alpha", "beta"))
    ids = _fill(server, alpha)
    own_view = _settled_view(server, alpha, ids)
    assert MARK in own_view, "the first workspace must see its own things"

    others_view = _view_everything(server, beta, ids)
    stream = f"{server.url}/v1/inboxes/{ids['inbox_id']}/stream"
    assert HTTP.get(stream, headers=_bearer(beta)).status_code == 404
    _try_to_change_everything(server, beta, ids)

    assert MARK not in others_view
    for secret_id in ids.values():
        assert secret_id not in others_view
    assert _view_everything(server, alpha, ids) == own_view


def test_metrics_name_what_is_in_the_workspace_of_the_key(server: Server) -> None:
    alpha, beta = (_make(server, name) for name in ("alpha", "beta"))
    ids = _fill(server, alpha)
    agent = server.api("/v1/keys", method="POST", json={"scope": "agent"}).json()["key"]

    own, others, refused = (
        HTTP.get(f"{server.url}/metrics", headers=_bearer(key)) for key in (alpha, beta, agent)
    )

    assert ids["source_id"] in own.text
    assert not any(id_ in others.text for id_ in ids.values())
    assert refused.status_code == 403


def test_without_a_key_every_path_of_the_api_is_401(server: Server) -> None:
    for path, method in _routes(server):
        answer = HTTP.request(method, server.url + re.sub(r"{[^}]*}", "x", path), json={})

        assert answer.status_code == 401, (method, path)


def test_a_reader_may_not_write_and_an_agent_may_not_read(server: Server) -> None:
    keys = {
        scope: server.api("/v1/keys", method="POST", json={"scope": scope}).json()["key"]
        for scope in ("reader", "agent", "sender")
    }

    for path, method in _routes(server):
        url = server.url + re.sub(r"{[^}]*}", "x", path)
        for scope, key in keys.items():
            if scope == "reader" and method == "GET" and path not in {"/v1/keys", "/v1/workspaces"}:
                continue
            if scope == "sender" and (method, path) in OF_SENDERS:
                continue
            if (method, path) in OF_EVERYBODY:
                continue
            if scope == "agent" and "/expectations" in path:
                # Its own, which other tests walk: what it may not see is not there.
                continue
            answer = HTTP.request(method, url, json={}, headers=_bearer(key))
            assert answer.status_code in {400, 403}, (scope, method, path, answer.text)


def test_a_revoked_key_is_refused(server: Server) -> None:
    made = server.api("/v1/keys", method="POST", json={"scope": "reader"}).json()
    before = HTTP.get(f"{server.url}/v1/events", headers=_bearer(made["key"]))

    server.api(f"/v1/keys/{made['id']}", method="DELETE")
    after = HTTP.get(f"{server.url}/v1/events", headers=_bearer(made["key"]))

    assert (before.status_code, after.status_code) == (200, 401)
    for path, method in _routes(server):
        url = server.url + re.sub(r"{[^}]*}", "x", path)
        answer = HTTP.request(method, url, json={}, headers=_bearer(made["key"]))
        assert answer.status_code == 401, (method, path)


def test_a_reader_sees_of_a_routes_url_only_its_host(server: Server) -> None:
    url = "https://hooks.example.com/services/T0/B0/a-key-in-the-path"
    route = {"name": "chat", "url": url, "headers": {"X-Key": "hunter2hunter2"}}
    assert server.api("/v1/routes", method="POST", json=route).status_code == 201
    reader = server.api("/v1/keys", method="POST", json={"scope": "reader"}).json()["key"]

    seen = [
        HTTP.get(server.url + path, headers=_bearer(reader)).text
        for path in ("/v1/routes", "/v1/routes/chat")
    ]

    assert server.api("/v1/routes/chat").json()["url"] == url
    for text in seen:
        assert "https://hooks.example.com/…" in text
        assert "a-key-in-the-path" not in text
        assert "hunter2" not in text


def _make(server: Server, name: str) -> str:
    made = server.api("/v1/workspaces", method="POST", json={"name": name})
    assert made.status_code == 201, made.text
    return str(made.json()["key"])


def _fill(server: Server, key: str) -> dict[str, str]:
    """Give a workspace one of everything; return what a path parameter may be called by."""
    source = HTTP.post(
        f"{server.url}/v1/sources",
        json={"name": MARK, "provider": "sesmetric", "secret": SECRET},
        headers=_bearer(key),
    ).json()
    feed = {"name": f"{MARK}-feed", "kind": "poll"}
    route = HTTP.post(f"{server.url}/v1/routes", json=feed, headers=_bearer(key)).json()
    bounce = event(MARK, "bounce", bounce_type="hard", recipient=f"{MARK}@example.net")
    for body in (bounce, {**bounce, "type": "complaint"}):
        posted = server.post(body, source=source["id"])
        assert posted.status_code == 200
    assert server.post(f"{MARK} is not JSON".encode(), source=source["id"]).status_code == 200
    server.post(MARK.encode(), source=source["id"], headers=signed(b"other"))
    sends = _fill_sends(server, key)
    refusals = f"{server.url}/v1/refusals"
    wait_for(
        lambda: MARK in HTTP.get(refusals, headers=_bearer(key)).text, what="the refusal to be kept"
    )
    listed = {
        name: HTTP.get(f"{server.url}/v1/{name}", headers=_bearer(key)).json()["data"][0]["id"]
        for name in ("events", "dead-letters", "keys", "deliveries")
    }
    reruns = {name: _rerun(server, key, name) for name in ("redeliveries", "reprocessings")}
    return sends | {
        "route_id": route["id"],
        "delivery_id": listed["deliveries"],
        "prefix": listed["deliveries"][:20],
        "redelivery_id": reruns["redeliveries"],
        "reprocessing_id": reruns["reprocessings"],
        "source_id": source["id"],
        "arrival_id": posted.json()["arrival"],
        "event_id": listed["events"],
        "letter_id": listed["dead-letters"],
        "key_id": listed["keys"],
        "message_id": f"m{MARK}",
        "address": f"{MARK}@example.net",
        **_fill_inbox(server, key),
    }


def _fill_inbox(server: Server, key: str) -> dict[str, str]:
    """Give a workspace a domain, an inbox in it, and a mail with an attachment."""

    def api(path: str, method: str = "GET", **request: Any) -> Any:
        answer = HTTP.request(method, server.url + path, headers=_bearer(key), **request)
        assert answer.status_code < 300, answer.text
        return answer.json()

    domain = api("/v1/domains", "POST", json={"domain": f"{MARK}.test"})["domain"]
    inbox = api("/v1/inboxes", "POST", json={"local": MARK})
    raw = (
        f"From: {MARK}@example.net\r\nSubject: {MARK}\r\nMIME-Version: 1.0\r\n"
        "Content-Type: application/octet-stream\r\nContent-Disposition: attachment\r\n\r\n"
        f"{MARK}\r\n"
    )
    path = f"/v1/inboxes/{inbox['id']}/messages"
    mail = api(path, "POST", content=raw.encode())
    [message] = api(path, params={"wait": 20}, timeout=60)["data"]
    wanted = {"kind": "code", "senders": [f"{MARK}@example.net"]}
    expectation = api(f"/v1/inboxes/{inbox['id']}/expectations", "POST", json=wanted)["id"]
    code = f"From: {MARK}@example.net\r\nSubject: x\r\n\r\nYour verification code is 482913.\r\n"
    api(path, "POST", content=code.encode())
    state = api(f"/v1/expectations/{expectation}", params={"wait": 20}, timeout=60)["state"]
    assert state == "ready"
    consume = {"consume_key": MARK}
    consumed = api(f"/v1/expectations/{expectation}/consume", "POST", json=consume)
    return {
        "expectation": expectation,
        "consumption": consumed["consumption"],
        "domain": domain,
        "inbox_id": inbox["id"],
        "msg_id": message["id"],
        "attachment_id": message["attachments"][0]["id"],
        "mail_id": mail["id"],
    }


def _fill_sends(server: Server, key: str) -> dict[str, str]:
    """Give a workspace a sender, a template and a send that waits."""
    sender = {"name": f"{MARK}-out", "provider": "resend", "secret": "x"}
    words = {"name": f"{MARK}-words", "subject": MARK, "text": MARK}
    mail = {
        "to": f"{MARK}@example.com", "from": "a@b.c", "cause_id": MARK, "template": words["name"],
        "send_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400)),
    }  # fmt: skip

    def post(path: str, body: dict[str, str]) -> dict[str, str]:
        answer = HTTP.post(f"{server.url}/v1/{path}", json=body, headers=_bearer(key))
        assert answer.status_code < 300, answer.text
        made: dict[str, str] = answer.json()
        return made

    made = post("senders", sender)
    post("templates", words)
    return {
        "sender_id": made["id"],
        "template_name": words["name"],
        "send_id": post("sends", mail)["id"],
    }


def _rerun(server: Server, key: str, name: str) -> str:
    """Begin a rerun, and wait for its end: what follows compares two looks."""
    made = HTTP.post(f"{server.url}/v1/{name}", json={}, headers=_bearer(key)).json()
    url = f"{server.url}/v1/{name}/{made['id']}"
    wait_for(
        lambda: HTTP.get(url, headers=_bearer(key)).json()["state"] == "finished",
        what=f"{name} to finish",
    )
    return str(made["id"])


def _routes(server: Server) -> list[tuple[str, str]]:
    paths = HTTP.get(f"{server.url}/openapi.json").json()["paths"]
    routes = [
        (path, method.upper())
        for path, methods in paths.items()
        for method in methods
        if path.startswith("/v1/") and path not in PUBLIC
    ]
    assert len(routes) > 15, "the API has more routes than that"
    return sorted(routes)


def _filled(path: str, ids: dict[str, str]) -> str:
    def fill(match: "re.Match[str]") -> str:
        name = match.group(1).split(":")[0]
        assert name in ids, f"tell this test what {{{name}}} of {path} is"
        return ids[name]

    return re.sub(r"{([^}]*)}", fill, path)


def _settled_view(server: Server, key: str, ids: dict[str, str]) -> str:
    """Look until nothing changes: reruns end, and whoever polls first numbers what is new."""
    views = [_view_everything(server, key, ids)]

    def is_settled() -> bool:
        views.append(_view_everything(server, key, ids))
        return views[-1] == views[-2]

    wait_for(is_settled, what="the workspace to settle")
    return views[-1]


def _view_everything(server: Server, key: str, ids: dict[str, str]) -> str:
    views: dict[str, Any] = {}
    for path, method in _routes(server):
        # A stream has no end; it begins as the list of messages does.
        if method != "GET" or path == "/v1/workspaces" or path.endswith("/stream"):
            continue
        answer = HTTP.get(server.url + _filled(path, ids), headers=_bearer(key))
        # What only the admin may see is neither one's own nor another's.
        assert answer.status_code in {200, 403, 404}, (path, answer.text)
        # A 404 repeats what was asked for, which is no secret to the one who asked.
        is_json = answer.headers["content-type"] == "application/json"
        views[path] = None
        if answer.status_code == 200:
            views[path] = answer.json() if is_json else answer.text
        if "{address}" in path and answer.status_code == 200:
            views[path].pop("address", None)
    return json.dumps(views)


def _try_to_change_everything(server: Server, key: str, ids: dict[str, str]) -> None:
    for path, method in _routes(server):
        if method == "GET" or "{" not in path:
            continue
        wanted: dict[str, Any] = {"provider": "sesmetric", "secret": "mine now"}
        if path.endswith("/acknowledgements"):
            wanted = {"cursor": 1}
        answer = HTTP.request(
            method, server.url + _filled(path, ids), json=wanted, headers=_bearer(key)
        )
        assert answer.status_code < 500, (method, path, answer.text)


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_each_workspace_may_say_which_events_suppress(tmp_path: Path) -> None:
    settings = 'suppress = ["bounced"]\n' + SETTINGS + "\n[workspaces.ws_other]\nsuppress = []\n"
    with running(Server(tmp_path / "one", f"sqlite:///{tmp_path}/data.db", settings)) as server:
        server.post(event("b", "bounce", bounce_type="soft", recipient="bob@example.net"))
        server.post(event("c", "complaint", recipient="cat@example.net"))

        bob = server.get("/v1/suppressions/bob@example.net")
        cat = server.get("/v1/suppressions/cat@example.net")

        assert (bob["suppressed"], cat["suppressed"]) == (True, False)
