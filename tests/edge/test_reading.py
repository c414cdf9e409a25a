"""The reading routes over HTTP, on a real database, with errors as the application maps them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from mailonce.core.access import Caller, Scope
from mailonce.edge.http import (
    conflicts,
    dead_letters,
    events,
    messages,
    providers,
    stats,
    suppressions,
)
from mailonce.edge.http.problems import code_of
from mailonce.errors import RefusedError, VerifyError
from mailonce.queue.configuration import Configuration
from mailonce.store.dialects.contract import Database
from tests.clock import ManualClock
from tests.factories import Ledger, make_body, make_dead, make_entry, make_source, new_id

MAIN = make_source()


@dataclass
class SmallService:
    """As much of a service as the reading routes call."""

    database: Database
    clock: ManualClock
    retried: list[str]
    snapshot: Configuration = field(default_factory=Configuration)

    @property
    def manage(self) -> "SmallService":
        return self

    routes = keys = parts = manage

    async def endpoints_down(self) -> dict[str, int]:
        return {}

    async def id_of(self, caller: Caller, id_or_name: str | None) -> str | None:
        assert caller.workspace
        return id_or_name

    async def caller_of(self, secret: str | None, workspace: str | None = None) -> Caller:
        if secret is None:
            raise VerifyError("send a key")
        return Caller(workspace or "default", Scope(secret))

    async def retry_dead_letter(
        self, caller: Caller, dead_id: str, *, source: str | None = None
    ) -> bool:
        assert caller.scope is Scope.OPERATOR
        assert source is None
        self.retried.append(dead_id)
        return True


@pytest.fixture
def service(ledger: Ledger) -> SmallService:
    return SmallService(ledger.database, ManualClock(ledger.now_ms), [])


@pytest_asyncio.fixture
async def client(service: SmallService) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.state.service = service
    for module in (conflicts, dead_letters, events, messages, providers, stats, suppressions):
        app.include_router(module.router)

    async def refuse(request: Request, error: Exception) -> JSONResponse:
        del request
        assert isinstance(error, RefusedError)
        return JSONResponse({"detail": str(error)}, code_of(error))

    app.add_exception_handler(RefusedError, refuse)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url="http://test",
        headers={"Authorization": "Bearer operator"},
    ) as client:
        yield client


async def test_a_page_leads_to_the_next_and_to_each_event(
    client: httpx.AsyncClient, ledger: Ledger
) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(n) for n in range(3)])

    first = (await client.get("/v1/events?limit=2")).json()
    second = (await client.get(f"/v1/events?limit=2&cursor={first['next']}")).json()
    shown = await client.get(f"/v1/events/{second['data'][0]['id']}")

    assert [len(first["data"]), len(second["data"]), second["next"]] == [2, 1, None]
    assert shown.json()["raw"]["id"] == "evt-0"


async def test_filters_are_read_from_the_query(client: httpx.AsyncClient, ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1), make_body(2, type="bounced", recipient="b@x.org")])

    for query, found in {
        "type=bounced": 1,
        "recipient=B@X.org": 1,
        "message_id=m-1": 2,
        "message_id=a%00b": 0,
        "since=2020-01-01": 2,
        "since=2020-01-01T00:00:00+02:00": 2,
        "until=2020-01-01T00:00:00Z": 0,
        "raw=1": 2,
    }.items():
        answer = await client.get(f"/v1/events?{query}")

        assert answer.status_code == 200, answer.text
        assert len(answer.json()["data"]) == found, query

    assert (await client.get("/v1/events?source=%00")).status_code == 404


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/events?limit=many", "1 to 1000"),
        ("/v1/events?limit=1001", "1 to 1000"),
        ("/v1/events?limit=0", "1 to 1000"),
        ("/v1/events?limit=%C2%B2", "1 to 1000"),
        ("/v1/events?cursor=x", "leave it out"),
        ("/v1/suppressions?cursor=WzFd", "leave it out"),
        ("/v1/events?since=yesterday", "2026-01-31T12:00:00Z"),
        ("/v1/events?until=2026-13-01", "2026-01-31T12:00:00Z"),
        ("/v1/events?type=exploded", "delivered"),
        ("/v1/events?raw=perhaps", "true or false"),
        ("/v1/stats?limit=2000", "1 to 1000"),
        ("/v1/stats?since=2026-01-31T10:00:00Z", "counts are by day"),
        ("/v1/stats?until=2026-01-31T00:00:00.001Z", "counts are by day"),
        ("/v1/suppressions/nobody", "name@example.com"),
        ("/v1/events?recipient=nobody", "name@example.com"),
        ("/v1/events?recipient=", "name@example.com"),
        ("/v1/events?recipient=@example.com", "name@example.com"),
    ],
)
async def test_a_wrong_question_is_answered_with_what_to_do(
    client: httpx.AsyncClient, path: str, hint: str
) -> None:
    answer = await client.get(path)

    assert answer.status_code == 400
    assert hint in answer.json()["detail"]


async def test_a_message_id_may_hold_slashes_and_brackets(
    client: httpx.AsyncClient, ledger: Ledger
) -> None:
    message_id = "<a/b c%20+?#@example.com>"
    await ledger.tell(MAIN, [make_body(1, message_id=message_id)])

    answer = await client.get(f"/v1/messages/{quote(message_id, safe='')}")

    assert answer.json()["message_id"] == message_id
    assert answer.json()["recipients"][0]["status"] == "delivered"


async def test_a_suppression_is_put_shown_listed_and_lifted(client: httpx.AsyncClient) -> None:
    path = "/v1/suppressions/Ada@Example.com"

    put = await client.put(path, json={"reason": "asked by phone"})
    listed = await client.get("/v1/suppressions?suppressed=true")
    lifted = await client.delete(path)
    shown = await client.get(path)

    assert put.json()["causes"][0]["reason"] == "asked by phone"
    assert [one["address"] for one in listed.json()["data"]] == ["ada@example.com"]
    assert lifted.json() == shown.json()
    assert shown.json()["suppressed"] is False
    assert shown.json()["lifts"][0]["by"] == "person"


async def test_a_suppression_needs_no_body(client: httpx.AsyncClient) -> None:
    answer = await client.put("/v1/suppressions/ada@example.com")

    assert answer.json()["suppressed"] is True


async def test_lifting_what_nobody_suppressed_is_404(client: httpx.AsyncClient) -> None:
    answer = await client.delete("/v1/suppressions/ada@example.com")

    assert answer.status_code == 404


async def test_a_reader_may_not_suppress_lift_or_retry(client: httpx.AsyncClient) -> None:
    client.headers["Authorization"] = "Bearer reader"

    answers = [
        await client.put("/v1/suppressions/ada@example.com"),
        await client.delete("/v1/suppressions/ada@example.com"),
        await client.post("/v1/dead-letters/dead_x/retry"),
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]


@pytest.mark.parametrize("scope", ["agent", "sender"])
async def test_an_agents_key_reads_nothing_here(client: httpx.AsyncClient, scope: str) -> None:
    client.headers["Authorization"] = f"Bearer {scope}"

    for path in (
        "/v1/events",
        "/v1/messages/m-1",
        "/v1/suppressions",
        "/v1/stats",
        "/v1/conflicts",
        "/v1/refusals",
        "/v1/dead-letters",
        "/v1/providers",
    ):
        assert (await client.get(path)).status_code == 403, path


async def test_without_a_key_nothing_is_read(client: httpx.AsyncClient) -> None:
    del client.headers["Authorization"]

    assert (await client.get("/v1/events")).status_code == 401


async def test_a_dead_letter_is_listed_shown_and_retried(
    client: httpx.AsyncClient, ledger: Ledger, service: SmallService
) -> None:
    dead = make_dead(new_id(ledger.now_ms), "not JSON", b"{")
    await ledger.record(make_entry(MAIN, b"{", now_ms=ledger.now_ms, dead=(dead,)))

    [letter] = (await client.get("/v1/dead-letters")).json()["data"]
    shown = await client.get(f"/v1/dead-letters/{letter['id']}")
    retried = await client.post(f"/v1/dead-letters/{letter['id']}/retry")

    assert shown.json() == letter
    assert retried.json() == letter | {"already_retried": False}
    assert service.retried == [letter["id"]]


async def test_stats_count_by_day(client: httpx.AsyncClient, ledger: Ledger) -> None:
    await ledger.add_source(MAIN)
    await ledger.tell(MAIN, [make_body(1), make_body(2), make_body(2)])

    answer = (await client.get("/v1/stats")).json()

    assert answer["next"] is None
    assert [row["count"] for row in answer["data"]] == [2]


async def test_the_schema_tells_the_fields_and_describes_each_route(
    client: httpx.AsyncClient,
) -> None:
    schema = (await client.get("/openapi.json")).json()

    event = schema["components"]["schemas"]["EventJson"]["properties"]
    assert {"id", "key", "recognised_by", "raw", "suspect"} <= set(event)
    operations = [one for path in schema["paths"].values() for one in path.values()]
    assert all(one["summary"] and one["description"] for one in operations)
    limit = _parameter(schema["paths"]["/v1/events"]["get"], "limit")
    assert (limit["type"], limit["maximum"]) == ("integer", 1000)


def _parameter(operation: dict[str, Any], name: str) -> dict[str, Any]:
    parameter = next(one for one in operation["parameters"] if one["name"] == name)
    schema: dict[str, Any] = parameter["schema"]
    return schema


async def test_providers_are_listed_with_what_is_known_of_them(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/v1/providers")).json()

    sesmetric = next(one for one in answer["data"] if one["name"] == "sesmetric")
    assert sesmetric["signs"] == ["secrets"]
    assert sesmetric["retry_horizon_s"] == 72 * 3600
    assert sesmetric["codes"] == {
        "done": 200,
        "refused": 401,
        "later": 503,
        "full": 503,
        "refused_is_final": False,
    }
    assert "bounced" in sesmetric["types"]
    assert sesmetric["event_id"] == "id"
    assert sesmetric["recipes"][0]["known_by"] == ["id"]
    assert all(one["recipes"] for one in answer["data"])
