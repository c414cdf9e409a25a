"""Every probe and handshake over HTTP: answered as its provider expects, and without effect."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.acceptance.harness import HTTP, Server, running

SETTINGS = """
[sources.mandrill]
provider = "mandrill"
secret = "mk"
options = { url = "https://hooks.example.com/in/mandrill" }
[sources.unisendergo]
provider = "unisendergo"
secret = "api-key-1"
[sources.elasticemail]
provider = "elasticemail"
token = "word"
[sources.sparkpost]
provider = "sparkpost"
basic = "hook:word"
[sources.mailersend]
provider = "mailersend"
secret = "s3cret"
[sources.cloudevents]
provider = "cloudevents"
token = "word"
options = { allowed_origins = ["sender.example.com"] }
"""

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PROBES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Mandrill's HEAD": ("HEAD", "mandrill", {}),
    "Mandrill's empty batch": (
        "POST",
        "mandrill",
        {"content": urlencode({"mandrill_events": "[]"}), "headers": FORM},
    ),
    "Unisender Go's GET": ("GET", "unisendergo", {}),
    "Elastic Email's GET": ("GET", "elasticemail", {}),
    "SparkPost's ping": ("POST", "sparkpost", {"json": [{"msys": {}}]}),
    "CloudEvents' handshake": (
        "OPTIONS",
        "cloudevents",
        {"headers": {"WebHook-Request-Origin": "sender.example.com"}},
    ),
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("probes")
    with running(Server(folder / "server", f"sqlite:///{folder / 'data.db'}", SETTINGS)) as server:
        yield server


@pytest.mark.parametrize(("method", "source", "request_"), PROBES.values(), ids=PROBES.keys())
def test_a_probe_is_answered_without_credentials_and_without_effect(
    door: Server, method: str, source: str, request_: dict[str, Any]
) -> None:
    answer = HTTP.request(method, f"{door.url}/in/{source}", **request_)

    assert answer.status_code == 200, answer.text
    assert door.all_events() == []
    assert door.get("/v1/dead-letters")["data"] == []


def test_the_handshake_of_cloudevents_names_the_origin_it_allows(door: Server) -> None:
    url = f"{door.url}/in/cloudevents"

    known = httpx.options(url, headers={"WebHook-Request-Origin": "sender.example.com"})
    stranger = httpx.options(url, headers={"WebHook-Request-Origin": "evil.example"})

    assert known.headers["WebHook-Allowed-Origin"] == "sender.example.com"
    assert "WebHook-Allowed-Origin" not in stranger.headers


def test_mailersends_ping_passes_with_the_public_test_secret_alone(door: Server) -> None:
    import hmac
    from hashlib import sha256

    public = b"test_Am3L1GuOIc4blLUuHqAPxxwkZaJyEk8G"
    ping = json.dumps({"type": "webhook.test", "message": "hi", "created_at": "x"}).encode()
    real = json.dumps({"type": "activity.delivered", "data": {"id": "a1"}}).encode()

    def post(body: bytes, secret: bytes) -> int:
        signature = hmac.new(secret, body, sha256).hexdigest()
        return door.post(body, source="mailersend", headers={"Signature": signature}).status_code

    codes = (post(ping, public), post(ping, b"other"), post(real, public))

    assert codes == (200, 401, 401)
    assert door.all_events() == []


@pytest.mark.parametrize("source", ["mandrill", "unisendergo", "sparkpost", "mailersend"])
def test_what_only_looks_like_a_probe_is_not_let_in(door: Server, source: str) -> None:
    answer = HTTP.post(f"{door.url}/in/{source}", json={"event": "delivered", "auth": "0" * 32})

    assert answer.status_code == 401, answer.text
    assert door.all_events() == []
