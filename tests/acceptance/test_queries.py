"""Webhooks that come with GET: their fields and their token in the URL."""

from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from tests.acceptance.harness import HTTP, Server, running

SETTINGS = """
[sources.elastic]
provider = "elasticemail"
token = "s3cret"
"""
CLICKED = {
    "transaction": "tx-1",
    "messageid": "m-1",
    "to": "ann@example.net",
    "date": "1/1/2026 12:00:05 AM",
    "status": "Clicked",
    "target": "https://example.com/a",
}


def _get(server: Server, query: str, method: str = "GET") -> httpx.Response:
    return HTTP.request(method, f"{server.url}/in/elastic?{query}", timeout=60)


@pytest.fixture
def elastic(database_url: str, tmp_path: Path) -> Server:
    return Server(tmp_path / "server", database_url, SETTINGS)


def test_a_get_without_fields_is_answered_and_without_effect(elastic: Server) -> None:
    with running(elastic):
        answer, head = _get(elastic, ""), _get(elastic, "", "HEAD")

        assert (answer.status_code, answer.json()) == (200, {"status": "ignored"})
        assert head.status_code == 200
        assert elastic.all_events() == []


def test_events_in_queries_are_taken_once_each_and_shown_without_their_token(
    elastic: Server,
) -> None:
    first, second = (urlencode({**CLICKED, "to": to}) for to in ("ann@x.test", "bob@x.test"))

    with running(elastic):
        answers = [
            _get(elastic, query).json()["status"]
            for query in (
                f"{first}&token=s3cret",
                f"{second}&token=s3cret",
                f"token=s3cret&{first}",
                f"{first}&token=wrong",
            )
        ]
        events = [elastic.get(f"/v1/events/{one['id']}") for one in elastic.all_events()]

    assert answers == ["accepted", "accepted", "duplicate", "refused"]
    assert {one["recipient"] for one in events} == {"ann@x.test", "bob@x.test"}
    assert [one["raw"]["target"] for one in events] == ["https://example.com/a"] * 2
    assert "s3cret" not in str(events)
