"""Settings over the API that cannot be kept, run or looked through are refused in a sentence."""

import json
from typing import Any

from tests.acceptance.harness import Server

POLL: dict[str, Any] = {"name": "bad", "kind": "poll"}
SOURCE: dict[str, Any] = {"name": "bad", "provider": "sesmetric", "secret": "s" * 20}
DEEP = "[" * 200 + "]" * 200
BAD = [
    ("POST", "/v1/routes", {"name": "bad", "kind": "handler"}),
    ("POST", "/v1/routes", {**POLL, "domains": ["a.example"] * 501}),
    ("POST", "/v1/routes", {**POLL, "tags": ["\x00"]}),
    ("POST", "/v1/routes", {**POLL, "url": "\ud800"}),
    ("POST", "/v1/routes", {**POLL, "metadata": {"a": 1 << 64}}),
    ("POST", "/v1/routes", {**POLL, "metadata": {"\ud800": 1}}),
    ("POST", "/v1/routes", {**POLL, "headers": {"\ud800": "1"}}),
    ("POST", "/v1/routes", {**POLL, "mapping": {"\ud800": 1}}),
    ("POST", "/v1/routes", {**POLL, "mapping": json.loads(DEEP)}),
    ("POST", "/v1/routes", {**POLL, "deadline_s": 1 << 70}),
    ("POST", "/v1/routes", {**POLL, "\ud800": 1}),
    ("POST", "/v1/routes", {**POLL, "expression": "to_string([" * 40 + "@" + "])" * 40}),
    ("POST", "/v1/routes/feed/off", {"reason": "\x00"}),
    ("PUT", "/v1/routes/feed", {"kind": "poll", "tags": ["\ud800"]}),
    ("POST", "/v1/sources", {**SOURCE, "secret": ["s" * 20] * 11}),
    ("POST", "/v1/sources", {**SOURCE, "account": "\x00"}),
    ("POST", "/v1/sources", {**SOURCE, "options": {"a": 1 << 64}}),
    ("POST", "/v1/sources", {**SOURCE, "options": json.loads('{"a":' + DEEP + "}")}),
    ("POST", "/v1/sources", {**SOURCE, "silence_s": 1 << 70}),
    ("POST", "/v1/keys", {"name": "\x00"}),
    ("POST", "/v1/keys", {"name": "\ud800"}),
    ("POST", "/v1/workspaces", {"name": "x\n"}),
]


def test_each_is_refused_with_what_to_do(server: Server) -> None:
    feed = {"name": "feed", "kind": "poll"}
    assert server.api("/v1/routes", method="POST", json=feed).status_code == 201
    before = [server.api(path).json() for path in ("/v1/routes", "/v1/sources", "/v1/keys")]

    for method, path, body in BAD:
        answer = server.api(
            path,
            method=method,
            content=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 400, (path, ascii(body)[:80], answer.text[:300])
        assert "; " in answer.json()["detail"], answer.text

    after = [server.api(path).json() for path in ("/v1/routes", "/v1/sources", "/v1/keys")]
    assert after == before
