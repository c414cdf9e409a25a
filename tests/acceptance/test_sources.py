"""Sources over HTTP: overlap of secrets, addresses behind proxies, freshness, alarms."""

import json
import time
from pathlib import Path

import httpx
import pytest

from tests.acceptance import sql
from tests.acceptance.harness import SECRET, SETTINGS, Server, event, running, signed


def test_two_secrets_overlap_until_the_old_one_is_taken_away(server: Server) -> None:
    def codes() -> list[int]:
        body = json.dumps(event(f"{time.monotonic_ns()}")).encode()
        return [
            server.post(body, source="turning", headers=signed(body, secret=secret)).status_code
            for secret in ("old", "new")
        ]

    settings = {"provider": "sesmetric", "secret": "old"}
    server.api("/v1/sources", method="POST", json={"name": "turning", **settings})
    before = codes()
    server.api("/v1/sources/turning", method="PUT", json={**settings, "secret": ["new", "old"]})
    during = codes()
    server.api("/v1/sources/turning", method="PUT", json={**settings, "secret": "new"})
    after = codes()

    assert (before, during, after) == ([200, 401], [200, 200], [401, 200])


@pytest.mark.parametrize(
    ("setting", "begins"),
    [("", ""), ('public_url = "https://mail.example.com/once/"', "https://mail.example.com/once")],
    ids=["unset", "set"],
)
def test_a_source_shows_the_url_to_paste(tmp_path: Path, setting: str, begins: str) -> None:
    database = f"sqlite:///{tmp_path / 'data.db'}"
    with running(Server(tmp_path / "server", database, f"{setting}\n{SETTINGS}")) as server:
        made = server.api(
            "/v1/sources",
            method="POST",
            json={"name": "shop", "provider": "sesmetric", "secret": "s"},
        ).json()
        shown = server.get("/v1/sources/shop")
        listed = {one["name"]: one["url"] for one in server.get("/v1/sources")["data"]}

    assert made["url"] == shown["url"] == listed["shop"] == f"{begins}/in/shop"
    assert listed["main"] == f"{begins}/in/main"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "code"),
    [
        ([], "198.51.100.7", 401),
        (["127.0.0.1"], "198.51.100.7", 200),
        (["127.0.0.1"], "198.51.100.7, 203.0.113.9", 401),
        (["127.0.0.1", "203.0.113.9"], "198.51.100.7, 203.0.113.9", 200),
        (["127.0.0.1"], "not an address", 401),
        (["127.0.0.1"], "", 401),
    ],
    ids=["no proxy, forged", "proxy", "forged in front", "two proxies", "garbage", "none"],
)
def test_an_address_is_believed_only_from_a_trusted_proxy(
    tmp_path: Path, proxies: list[str], forwarded: str, code: int
) -> None:
    settings = f"""
[sources.near]
provider = "postmark"
allow_ips = ["198.51.100.0/24"]
[net]
trusted_proxies = {json.dumps(proxies)}
"""
    body = b'{"RecordType": "Delivery", "MessageID": "m", "Recipient": "a@x.test"}'
    database = f"sqlite:///{tmp_path / 'data.db'}"
    with running(Server(tmp_path / "server", database, settings)) as server:
        answer = server.post(body, source="near", headers={"X-Forwarded-For": forwarded})

        assert answer.status_code == code


@pytest.mark.parametrize(("offset_s", "code"), [(-290, 200), (-310, 401), (290, 200), (310, 401)])
def test_freshness_has_an_edge_on_both_sides(server: Server, offset_s: int, code: int) -> None:
    body = json.dumps(event(f"edge{offset_s}")).encode()

    answer = server.post(body, headers=signed(body, seconds=int(time.time()) + offset_s))

    assert answer.status_code == code


def test_a_silent_source_raises_one_alarm_and_clears_it(database_url: str, tmp_path: Path) -> None:
    settings = SETTINGS.replace(f'secret = "{SECRET}"', f'secret = "{SECRET}"\nsilence_s = 600')
    with running(Server(tmp_path / "server", database_url, settings)) as server:
        minute = int(time.time()) // 60 - 30
        sql.query(database_url, f"INSERT INTO pulses VALUES ('src_main', {minute}, 5, 0)")

        _wait(lambda: _alerts(server) == ["silent"], server)
        metric = 'mailonce_alarm{kind="silent",source="src_main"}'
        during = server.api("/metrics").text
        server.post(event(1))
        _wait(lambda: f"{metric} 0.0" in server.api("/metrics").text, server)

        assert f"{metric} 1.0" in during
        assert "alarm_raised" in server.log
        assert _alerts(server) == ["silent"]


def test_a_burst_of_bad_signatures_raises_an_alarm(server: Server) -> None:
    body = json.dumps(event(1)).encode()

    for _ in range(12):
        server.post(body, headers=signed(body, secret="rotated away"))

    _wait(lambda: _alerts(server) == ["refusing"], server)
    metrics = server.api("/metrics").text
    assert 'mailonce_alarm{kind="refusing",source="src_main"} 1.0' in metrics
    assert "alarm_raised" in server.log


def test_a_copy_known_by_its_content_alone_is_counted(server: Server) -> None:
    """A provider that gives an event a new id with each attempt is still recognised."""
    server.api(
        "/v1/sources",
        method="POST",
        json={"name": "old", "provider": "sesmetric", "secret": SECRET,
              "options": {"form": "body"}},
    )  # fmt: skip
    import hmac
    from hashlib import sha256

    for attempt in range(3):
        detail = {
            "sm_mail_id": "s1",
            "messageId": "m1",
            "recipients": ["ann@example.net"],
            "eventTimestamp": "2026-11-01T00:00:05Z",
            "eventId": f"attempt-{attempt}",
        }
        body = json.dumps({"event_type": "delivery", "payload": detail}).encode()
        digest = hmac.new(SECRET.encode(), body, sha256).hexdigest()
        server.post(body, source="old", headers={"X-SM-Signature": f"sha256={digest}"})

    shown = server.get(f"/v1/events/{server.all_events()[0]['id']}")
    metrics = server.api("/metrics").text
    assert (shown["copies"], shown["recognised_by"]) == (2, ["content"])
    assert "mailonce_copies_by_content_total{" in metrics


def _alerts(server: Server) -> list[str]:
    return [
        row["metadata"]["alert"]
        for row in server.all_events(type="other")
        if "alert" in (row["metadata"] or {})
    ]


def _wait(check: object, server: Server) -> None:
    from tests.servers import wait_for

    wait_for(check, what=f"an alarm: {server.log[-500:]}")


def test_a_source_that_was_taken_out_of_the_file_is_off_until_it_is_back(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}")
    body = json.dumps(event("kept for later")).encode()

    def post() -> httpx.Response:
        return server.post(body, source="main", headers=signed(body))

    with running(server):
        before = server.get("/v1/sources/main")
    server.settings = SETTINGS.replace("[sources.main]", "[sources.other]")
    with running(server):
        off, shown = post(), server.get("/v1/sources/main")
        findings = {row["check"]: row for row in server.get("/v1/checkup")["data"]}
        _wait(lambda: server.get("/v1/refusals")["data"], server)
        refusals = [row["reason"] for row in server.get("/v1/refusals")["data"]]
        lines = [line for line in server.log.splitlines() if "not_in_file_switched_off" in line]
    server.settings = SETTINGS
    with running(server):
        back = post()

    assert (before["on"], shown["on"]) == (True, False)
    assert off.status_code == 503, "so that the provider sends it again"
    assert off.headers["retry-after"]
    assert refusals == ["the source is switched off"]
    assert findings["source main"]["level"] == "warn"
    assert "mailonce source remove main" in findings["source main"]["advice"]
    assert back.json()["status"] == "accepted", "nothing was lost"
    assert len(lines) == 1
    assert "mailonce source remove main" in lines[0]
