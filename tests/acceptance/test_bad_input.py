"""Bad input never makes a 500, an event that nobody proved, or a loss for its neighbours."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import HTTP, SECRET, SETTINGS, Server, event, running, signed
from tests.servers import wait_for

BODY = b'{"id":"evt_1","type":"delivery","message_id":"m1"}'
POISON = b'{"id": 7, "type": []}'


def _now() -> int:
    """Tell the time when it is asked for: a suite runs longer than a signature is fresh."""
    return int(time.time())


Sign = Callable[[bytes], dict[str, str]]

BAD_SIGNATURES: dict[str, Sign] = {
    "wrong secret": lambda body: signed(body, secret="other"),
    "missing": lambda _: {},
    "signature without timestamp": lambda body: {
        "X-SESMetric-Signature": signed(body)["X-SESMetric-Signature"]
    },
    "not a number": lambda body: signed(body, seconds="yesterday"),
    "a number with a sign": lambda body: signed(body, seconds=f"+{_now()}"),
    "a fraction": lambda body: signed(body, seconds=f"{_now()}.5"),
    "stale": lambda body: signed(body, seconds=_now() - 310),
    "ahead": lambda body: signed(body, seconds=_now() + 600),
    "not hex": lambda body: {**signed(body), "X-SESMetric-Signature": "ü" * 64},
    "empty": lambda body: {**signed(body), "X-SESMetric-Signature": ""},
    "the weaker form": lambda _: {"X-SM-Signature": "sha256=00"},
}


@pytest.mark.parametrize("sign", BAD_SIGNATURES.values(), ids=BAD_SIGNATURES.keys())
def test_a_bad_signature_is_401_and_stores_no_event(shared: Server, sign: Sign) -> None:
    before = len(shared.all_events())
    headers = {name.encode(): value.encode() for name, value in sign(BODY).items()}

    answer = HTTP.post(f"{shared.url}/in/main", content=BODY, headers=headers)

    assert answer.status_code == 401
    assert len(shared.all_events()) == before


def test_refusals_are_counted_with_their_reason_and_a_sample(server: Server) -> None:
    for _ in range(30):
        server.post(BODY, headers=signed(BODY, secret="other"))
    server.post(BODY, headers={})

    wait_for(
        lambda: sum(row["count"] for row in server.get("/v1/refusals")["data"]) >= 31,
        what="all to be counted",
    )
    refusals = server.get("/v1/refusals")["data"]

    counts = {row["reason"]: 0 for row in refusals}
    for row in refusals:
        counts[row["reason"]] += row["count"]
    assert counts == {"wrong signature": 30, "missing signature": 1}
    assert len(refusals) <= 4, "a flood of forgeries must not become a flood of rows"
    assert server.log.count("arrival_refused") <= 8, "nor one of log lines"
    assert SECRET not in json.dumps(refusals)


HOSTILE: dict[str, bytes] = {
    "NUL bytes": b'{"id":"nul","type":"delivery","message_id":"a\\u0000b","recipient":"\\u0000"}',
    "raw NUL": b'{"id":"raw\x00nul","type":"delivery"}',
    "lone surrogate": b'{"id":"sur","type":"delivery","message_id":"\\ud800","reason":"\\udfff"}',
    "huge integer": b'{"id":"big","type":"delivery","timestamp":%d,"n":%d}' % (2**70, 2**70),
    "deep nesting": b'{"id":"deep","type":"delivery","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "duplicate keys": b'{"id":"twice","id":"dup","type":"open","type":"delivery"}',
    "1970": b'{"id":"old","type":"delivery","message_id":"m","timestamp":0}',
    "2099": b'{"id":"far","type":"delivery","message_id":"m","timestamp":4070908800}',
    "year 99999": b'{"id":"farther","type":"delivery","timestamp":3093527980800}',
    "negative time": b'{"id":"neg","type":"delivery","timestamp":-5}',
    "NaN": b'{"id":"nan","type":"delivery","timestamp":NaN}',
    "not UTF-8": b'{"id":"\xff\xfe","type":"delivery"}',
    "not JSON": b"id=1&type=delivery",
    "a list": b"[1,2,3]",
    "empty": b"",
    "null": b"null",
    "long ids": b'{"id":"%s","type":"delivery","message_id":"%s","recipient":"%s"}'
    % (b"i" * 5000, "\U0001f4e7".encode() * 5000, "\U0001f4e7".encode() * 5000),
    **{
        f"wrong types: {value!r}": json.dumps(
            dict.fromkeys(
                (
                    "message_id",
                    "recipient",
                    "timestamp",
                    "bounce_type",
                    "reason",
                    "tags",
                    "metadata",
                    "url",
                    "user_agent",
                    "ip",
                ),
                value,
            )
            | {"id": f"types-{value!r}", "type": "bounce"}
        ).encode()
        for value in (None, True, 1.5, [], {}, [[1]], {"a": {"b": 1}}, "")
    },
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_body_is_acknowledged_and_never_a_500(shared: Server, body: bytes) -> None:
    answer = shared.post(body)

    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] in {"accepted", "duplicate", "dead_letter"}
    assert shared.get("/v1/events", limit=1000)["data"] is not None


def test_a_hostile_neighbour_in_the_same_batch_costs_nobody(server: Server) -> None:
    from concurrent.futures import ThreadPoolExecutor

    good = [json.dumps(event(n)).encode() for n in range(len(HOSTILE))]
    mixed = [body for pair in zip(good, HOSTILE.values(), strict=True) for body in pair]

    with ThreadPoolExecutor(32) as pool:
        codes = {answer.status_code for answer in pool.map(server.post, mixed)}

    stored = {stored_event["raw"]["id"] for stored_event in server.all_events(raw=1)}
    assert codes == {200}
    assert {f"evt_{n}" for n in range(len(good))} <= stored


def test_an_unreadable_element_does_not_cost_the_others(database_url: str, tmp_path: Path) -> None:
    from base64 import b64encode

    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = ec.generate_private_key(ec.SECP256R1())
    public = b64encode(
        key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ).decode()
    settings = f'[sources.grid]\nprovider = "sendgrid"\npublic_key = "{public}"\n'
    good = b'{"event":"delivered","email":"a@x.test","sg_message_id":"m%d","timestamp":1794000000}'
    deep = b'{"event":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    body = b"[" + good % 1 + b",7," + deep + b"," + good % 2 + b"]"
    stamp = str(_now())
    headers = {
        "X-Twilio-Email-Event-Webhook-Timestamp": stamp,
        "X-Twilio-Email-Event-Webhook-Signature": b64encode(
            key.sign(stamp.encode() + body, ec.ECDSA(SHA256()))
        ).decode(),
    }

    with running(Server(tmp_path / "server", database_url, settings)) as server:
        answer = server.post(body, source="grid", headers=headers)

        assert (answer.status_code, answer.json()["new"]) == (200, 2)
        assert len(server.get("/v1/dead-letters")["data"]) == 2


def test_a_body_over_the_limit_is_413_and_read_no_further(shared: Server) -> None:
    sent = 0
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as client:
        client.sendall(b"POST /in/main HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            while sent < 200 << 20:
                client.sendall(chunk)
                sent += 65536
        except OSError:
            pass
        answer = b""
        with suppress(OSError):
            answer = client.recv(65536)

    assert sent < 100 << 20
    assert answer.startswith(b"HTTP/1.1 413") or answer == b""


def test_a_declared_length_over_the_limit_is_413_at_once(shared: Server) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as client:
        client.sendall(b"POST /in/main HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n")

        answer = client.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413")


def test_an_unknown_source_is_404_on_the_databases_word(server: Server) -> None:
    unknown = server.post(BODY, source="nobody")
    made = server.api(
        "/v1/sources",
        method="POST",
        json={"name": "nobody", "provider": "sesmetric", "secret": SECRET},
    )
    known = server.post(BODY, source="nobody")

    assert (unknown.status_code, made.status_code, known.status_code) == (404, 201, 200)


def test_a_source_is_not_404_while_the_database_is_away(postgres_url: str, tmp_path: Path) -> None:
    from tests.acceptance import sql

    with running(Server(tmp_path / "server", postgres_url)) as server:
        lock = "LOCK TABLE head IN ACCESS EXCLUSIVE MODE"
        with sql.held(postgres_url, lock):
            answer = server.post(BODY, source="nobody")

        assert answer.status_code == 503


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_method_is_405(shared: Server, method: str) -> None:
    answer = HTTP.request(method, f"{shared.url}/in/main")

    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "image/png", "", "ü"]
)
def test_no_content_type_is_refused(shared: Server, content_type: str) -> None:
    body = json.dumps(event(f"type-{content_type}")).encode()
    headers = {**signed(body), "Content-Type": content_type}

    answer = HTTP.post(
        f"{shared.url}/in/main",
        content=body,
        headers={name.encode(): value.encode() for name, value in headers.items()},
    )

    assert answer.status_code == 200


def test_poison_under_refuse_is_400_and_its_bytes_are_kept(
    database_url: str, tmp_path: Path
) -> None:
    with running(_with_poison(database_url, tmp_path, "refuse")) as server:
        answer = server.post(POISON)
        wait_for(lambda: server.get("/v1/refusals")["data"], what="the refusal to be kept")

        assert answer.status_code == 400
        assert server.get("/v1/dead-letters")["data"] == []
        assert "unreadable" in {row["reason"] for row in server.get("/v1/refusals")["data"]}
        assert POISON.decode() in json.dumps(server.get("/v1/refusals")["data"]).replace('\\"', '"')


def test_poison_becomes_a_dead_letter_by_default_and_can_be_retried(server: Server) -> None:
    answer = server.post(POISON)

    letters = server.get("/v1/dead-letters")["data"]
    retried = server.api(f"/v1/dead-letters/{letters[0]['id']}/retry", method="POST")

    assert (answer.status_code, answer.json()["status"]) == (200, "dead_letter")
    assert [letter["raw"] for letter in letters] == [POISON.decode()]
    assert retried.status_code == 400, "nothing has changed, so it still cannot be read"
    metrics = server.api("/metrics").text
    assert 'mailonce_dead_letters_total{source="src_main"} 1.0' in metrics


def test_poison_under_retry_is_5xx_first_and_a_dead_letter_then(
    database_url: str, tmp_path: Path
) -> None:
    with running(_with_poison(database_url, tmp_path, 'retry"\npoison_attempts = 2\n#')) as server:
        codes = [server.post(POISON).status_code for _ in range(3)]

        assert codes == [503, 503, 200]
        assert len(server.get("/v1/dead-letters")["data"]) == 1


def _with_poison(database_url: str, tmp_path: Path, poison: str) -> Server:
    settings = SETTINGS.replace("[sources.hooks]", f'poison = "{poison}"\n[sources.hooks]')
    return Server(tmp_path / "server", database_url, settings)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Server]:
    """One server for the tests that do not mind each other."""
    folder = tmp_path_factory.mktemp("shared")
    if request.param == "sqlite":
        url = f"sqlite:///{folder / 'data.db'}"
    else:
        import asyncio
        from uuid import uuid4

        import asyncpg

        postgres = request.getfixturevalue("postgres")
        name = f"t_{uuid4().hex}"

        async def create() -> None:
            connection = await asyncpg.connect(postgres.url())
            await connection.execute(f"CREATE DATABASE {name}")
            await connection.close()

        asyncio.run(create())
        url = postgres.url(name)
    with running(Server(folder / "server", url)) as server:
        yield server
