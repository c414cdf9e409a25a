"""Passwords at the door: who sends one only when asked, and who relies on one alone."""

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.harness import HTTP, Server, running
from tests.providers.sns_peer import CERT_URL, TOPIC, notification, signer
from tests.servers import wait_for

AMAZON = signer(days_from=0, days_to=3650)
PASSWORD = {"Authorization": "Basic " + b64encode(b"hook:word").decode()}
SETTINGS = f'''
[sources.sns]
provider = "ses"
topic_arns = ["{TOPIC}"]
public_key = """{AMAZON.public_key.decode()}"""
basic = "hook:word"

[sources.basic]
provider = "postmark"
basic = "hook:word"

[sources.token]
provider = "postmark"
token = "t0ken"

[sources.signed]
provider = "sesmetric"
secret = "s3cret"

[sources.both]
provider = "sesmetric"
secret = "s3cret"
basic = "hook:word"
'''


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all of them."""
    folder: Path = tmp_path_factory.mktemp("passwords")
    with running(Server(folder, f"sqlite:///{folder / 'data.db'}", SETTINGS)) as server:
        yield server


def _event(number: int) -> bytes:
    sent_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    event = {
        "eventType": "Delivery",
        "delivery": {"timestamp": sent_at, "recipients": ["a@x.test"]},
        "mail": {"messageId": f"0102-m{number}", "destination": ["a@x.test"]},
    }
    envelope = notification(
        event, Timestamp=sent_at, SigningCertURL=CERT_URL, MessageId=f"id-{number}"
    )
    return json.dumps(AMAZON.sign(envelope)).encode()


def _post_as_sns(door: Server, body: bytes) -> httpx.Response:
    """SNS sends its password only after a 401 with a challenge, and takes any other 4xx as final.

    https://docs.aws.amazon.com/sns/latest/dg/sns-http-https-endpoint-as-subscriber.html
    """
    answer = door.post(body, source="sns", headers={})
    challenge = answer.headers.get("WWW-Authenticate", "")
    if answer.status_code == 401 and challenge.startswith('Basic realm="'):
        return door.post(body, source="sns", headers=PASSWORD)
    return answer


def test_sns_is_asked_for_its_password_and_loses_nothing(door: Server) -> None:
    answers = [_post_as_sns(door, _event(number)) for number in range(12)]
    forged = door.post(_event(99).replace(b"m99", b"m98"), source="sns", headers=PASSWORD)

    assert [answer.json()["status"] for answer in answers] == ["accepted"] * 12
    assert forged.status_code == 403, "what is proven wrong is final for SNS"
    wait_for(lambda: _refused(door, "no password") >= 12, what="the count to be written")
    assert _refused(door, "no password") == 12
    assert 'mailonce_alarm{kind="refusing",source="src_sns"} 1' not in _metrics(door)


def _refused(door: Server, reason: str) -> int:
    rows: list[dict[str, Any]] = door.get("/v1/refusals")["data"]
    return sum(row["count"] for row in rows if row["reason"] == reason)


def _metrics(door: Server) -> str:
    return HTTP.get(f"{door.url}/metrics").text


@pytest.mark.parametrize(
    ("path", "challenge"),
    [
        ("/in/basic", 'Basic realm="mailonce"'),
        ("/in/token", 'Bearer realm="mailonce"'),
        ("/in/signed", 'Signature realm="mailonce"'),
        ("/in/both", 'Basic realm="mailonce"'),
        ("/v1/events", "Bearer"),
    ],
)
def test_every_401_says_what_is_missing(door: Server, path: str, challenge: str) -> None:
    method = "POST" if path.startswith("/in/") else "GET"

    answer = HTTP.request(method, door.url + path, content=b"{}" if method == "POST" else None)

    assert answer.status_code == 401
    assert answer.headers.get("WWW-Authenticate", "").startswith(challenge)


UNSIGNED = {
    "sendgrid": b'[{"event":"delivered","email":"a@x.test","sg_message_id":"u1"}]',
    "mailtrap": b'{"events":[{"event":"delivery","event_id":"u2","email":"a@x.test"}]}',
    "resend": b'{"type":"email.delivered","data":{"email_id":"u3","to":["a@x.test"]}}',
}


def _make(door: Server, name: str, **settings: Any) -> httpx.Response:
    return door.api("/v1/sources", method="POST", json={"name": name, **settings})


@pytest.mark.parametrize("provider", UNSIGNED)
def test_an_unsigned_webhook_comes_in_behind_a_password(door: Server, provider: str) -> None:
    body, name = UNSIGNED[provider], f"{provider}-plain"

    without_a_word = _make(door, name, provider=provider, basic="hook:word")
    made = _make(door, name, provider=provider, basic="hook:word", unsigned=True)
    answers = [door.post(body, source=name, headers=headers) for headers in ({}, PASSWORD)]

    assert without_a_word.status_code == 400
    assert "unsigned = true" in without_a_word.json()["detail"]
    assert (made.status_code, made.json().get("unsigned")) == (201, True)
    assert [answer.status_code for answer in answers] == [401, 200]
    assert answers[1].json()["status"] == "accepted"


def test_a_source_that_needs_no_proof_takes_what_is_unsigned(door: Server) -> None:
    body = UNSIGNED["sendgrid"].replace(b"u1", b"u4")

    made = _make(door, "open", provider="sendgrid", unproven=True)
    answer = door.post(body, source="open", headers={})

    assert (made.status_code, answer.status_code) == (201, 200)


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"unsigned": True}, "basic"),
        ({"unsigned": True, "basic": "a:b", "secret": "s"}, "leave"),
        ({"unsigned": True, "basic": "a:b", "public_key": "k"}, "leave"),
    ],
)
def test_what_cannot_work_is_said_when_the_source_is_made(
    door: Server, settings: dict[str, Any], remedy: str
) -> None:
    answer = _make(door, "never", provider="sendgrid", **settings)

    assert answer.status_code == 400
    assert remedy in answer.json()["detail"]
