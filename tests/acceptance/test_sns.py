"""SNS over HTTP, with a stand-in for Amazon's hosts behind real TLS."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.harness import Server
from tests.net.conftest import HOST, Authority, Peer, authority, peer
from tests.providers.sns_peer import CERT_URL, CONFIRM_URL, TOPIC, handshake, notification, signer

__all__ = ["authority", "peer"]

DAYS = {"days_from": 0, "days_to": 3650}
DELIVERY = {
    "eventType": "Delivery",
    "delivery": {"timestamp": "2026-11-01T00:00:01.500Z", "recipients": ["a@x.test"]},
    "mail": {"messageId": "0102-m1", "destination": ["a@x.test"]},
}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _server(database_url: str, tmp_path: Path, peer: Peer, authority: Authority) -> Server:
    settings = f"""
[sources.ses]
provider = "ses"
topic_arns = ["{TOPIC}"]
[net]
ca_file = "{authority.ca_file}"
[net.hosts]
"{HOST}" = "{peer.address}"
"""
    return Server(tmp_path / "server", database_url, settings)


async def _post(server: Server, envelope: dict[str, Any]) -> httpx.Response:
    return await asyncio.to_thread(
        server.post, json.dumps(envelope).encode(), source="ses", headers={}
    )


async def _running(server: Server) -> Server:
    return await asyncio.to_thread(server.start)


def _signed(version: str = "2", **changes: Any) -> dict[str, Any]:
    fields = notification(DELIVERY, Timestamp=_now(), SigningCertURL=CERT_URL, **changes)
    return signer(**DAYS).sign(fields, version)


@pytest.mark.parametrize("version", ["1", "2"])
async def test_a_notification_is_proven_by_the_fetched_certificate(
    database_url: str, tmp_path: Path, peer: Peer, authority: Authority, version: str
) -> None:
    peer.key = signer(**DAYS).certificate
    server = _server(database_url, tmp_path, peer, authority)
    try:
        await _running(server)
        answers = [await _post(server, _signed(version, MessageId=f"id-{n}")) for n in range(3)]

        assert [a.json().get("status") for a in answers] == ["accepted", "duplicate", "duplicate"]
        assert len(peer.seen) == 1, "the certificate is fetched once"
    finally:
        server.kill()


async def test_a_subscription_is_confirmed_before_it_is_acknowledged(
    database_url: str, tmp_path: Path, peer: Peer, authority: Authority
) -> None:
    peer.key = signer(**DAYS).certificate
    server = _server(database_url, tmp_path, peer, authority)
    fields = handshake(Timestamp=_now(), SigningCertURL=CERT_URL)
    try:
        await _running(server)
        answer = await _post(server, signer(**DAYS).sign(fields))

        assert (answer.status_code, answer.json()["status"]) == (200, "ignored")
        assert peer.seen[-1][:2] == ("GET", CONFIRM_URL.partition(HOST)[2])
    finally:
        server.kill()


async def test_what_is_not_amazons_is_403_and_nothing_is_fetched(
    database_url: str, tmp_path: Path, peer: Peer, authority: Authority
) -> None:
    server = _server(database_url, tmp_path, peer, authority)
    evil = "https://sns.eu-west-1.amazonaws.com.evil.test/SimpleNotificationService-0.pem"
    other = TOPIC.replace("ses-events", "somebody-elses")
    try:
        await _running(server)
        forged = await _post(server, {**_signed(), "SigningCertURL": evil})
        wrong_topic = await _post(server, _signed(TopicArn=other))

        assert (forged.status_code, wrong_topic.status_code) == (403, 403)
        assert peer.seen == []
        assert server.all_events() == []
    finally:
        server.kill()


async def test_a_certificate_that_cannot_be_had_is_503_and_not_a_refusal(
    database_url: str, tmp_path: Path, peer: Peer, authority: Authority
) -> None:
    peer.status = 500
    peer.key = signer(**DAYS).certificate
    server = _server(database_url, tmp_path, peer, authority)
    server.settings = server.settings.replace(peer.address, "127.0.0.1:9")
    try:
        await _running(server)
        away = await _post(server, _signed())

        assert away.status_code == 503
        assert int(away.headers["Retry-After"]) > 0
    finally:
        server.kill()


async def test_a_changed_byte_is_403(
    database_url: str, tmp_path: Path, peer: Peer, authority: Authority
) -> None:
    peer.key = signer(**DAYS).certificate
    server = _server(database_url, tmp_path, peer, authority)
    envelope = _signed()
    try:
        await _running(server)
        answer = await _post(
            server, {**envelope, "Message": envelope["Message"].replace("a@x.test", "b@x.test")}
        )

        assert answer.status_code == 403
        assert server.all_events() == []
    finally:
        server.kill()
