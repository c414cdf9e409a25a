"""No API request that writes answers 5xx to a body that no database could hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import ADMIN_KEY, HTTP, SETTINGS, Server, running

ROUTE = '\n[routes.crm]\nurl = "https://crm.test/hook"\n[routes.polled]\nkind = "poll"\n'
# In place of each field in turn.
VALUES: dict[str, str] = {
    "an integer above 64 bits": str(2**64),
    "half a surrogate pair": r'"\ud800"',
    "NUL": r'"a\u0000b"',
    "deep lists": "[" * 300 + "]" * 300,
    "a list of lists": "[[[]]]",
}
# In place of the whole body.
BODIES: dict[str, str] = {
    "a huge integer": "9" * 5000,
    "a huge float": '{"name":1e999}',
    "very deep lists": "[" * 50_000 + "]" * 50_000,
    "deep objects": '{"a":' * 300 + "1" + "}" * 300,
    "not a number": '{"name":NaN}',
    "null": "null",
    "no JSON": "{",
    "an empty text": '""',
    "not UTF-8": "\udcff",
}


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[Server]:
    with running(Server(tmp_path / "server", database_url, SETTINGS + ROUTE)) as server:
        yield server


def test_no_body_makes_a_writing_request_fail(api: Server) -> None:
    schema = api.get("/openapi.json")
    writes = [
        (method, path, fields)
        for path, methods in schema["paths"].items()
        for method, about in methods.items()
        if method in {"post", "put", "patch"}
        for fields in [_fields(schema, about)]
        if fields
    ]
    assert len(writes) > 8, "the schema names what can be written"

    wrong: list[tuple[str, str, str, str, int]] = []
    for method, path, fields in writes:
        url = path.format_map(_Names())
        bodies = list(BODIES.items())
        bodies += [(it, _with(fields, field, VALUES[it])) for it in VALUES for field in fields]
        for name, body in bodies:
            code = _code(api, method, url, body)
            if code >= 500:
                wrong.append((method, path, name, body[:60], code))

    assert wrong == []


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return {"route_id": "polled", "source_id": "main", "address": "a@b.test"}.get(name, "x")


def _code(server: Server, method: str, url: str, body: str) -> int:
    answer = HTTP.request(
        method,
        server.url + url,
        content=body.encode("utf-8", "surrogateescape"),
        headers={"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"},
        timeout=60,
    )
    return answer.status_code


def _fields(schema: dict[str, Any], about: dict[str, Any]) -> list[str]:
    content = about.get("requestBody", {}).get("content", {}).get("application/json", {})
    text = str(content.get("schema", {}))
    names = [name for name in schema["components"]["schemas"] if f"/{name}'" in text]
    return [
        field
        for name in names
        for field in schema["components"]["schemas"][name].get("properties", {})
    ]


GOOD = {
    "name": '"good"',
    "provider": '"hmac"',
    "secret": '"s3cret-s3cret"',
    "url": '"https://x.test"',
}


def _with(fields: list[str], field: str, value: str) -> str:
    pairs = {name: GOOD[name] for name in fields if name in GOOD} | {field: value}
    return "{" + ",".join(f'"{name}":{text}' for name, text in pairs.items()) + "}"
