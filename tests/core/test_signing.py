"""Our signatures, checked by the verifiers that receivers use."""

import base64
import os
import time

import pytest
import standardwebhooks
import svix.webhooks
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mailonce.core.deliveries.delivery import key_of
from mailonce.core.deliveries.route import Route, RouteSecret
from mailonce.core.deliveries.signing import (
    check_secret,
    new_private_key,
    new_secret,
    public_key_of,
    signature_headers,
)
from mailonce.core.work.job import LeasedJob
from mailonce.core.work.states import AttemptKind, WorkKey
from mailonce.errors import ConfigError
from mailonce.pipeline.deliver import headers_of

BODY = b'{"schema":"mailonce.event/1","type":"bounced"}'
KEY = key_of("a" * 32, "rte_crm")


def now_ms() -> int:
    return int(time.time() * 1000)


def signed(*secrets: RouteSecret, body: bytes = BODY) -> dict[str, str]:
    return signature_headers(KEY.hex(), body, secrets, now_ms=now_ms())


def new_route_secret(until_ms: int | None = None) -> RouteSecret:
    return RouteSecret(new_secret(os.urandom(32)), until_ms)


def test_both_reference_verifiers_take_it() -> None:
    secret = new_route_secret()

    headers = signed(secret)

    standardwebhooks.Webhook(secret.value).verify(BODY, headers)
    svix.webhooks.Webhook(secret.value).verify(BODY, headers)


@pytest.mark.parametrize("place", [0, len(BODY) // 2, len(BODY) - 1])
def test_both_reference_verifiers_reject_a_changed_byte(place: int) -> None:
    secret = new_route_secret()
    headers = signed(secret)
    changed = bytearray(BODY)
    changed[place] ^= 1

    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret.value).verify(bytes(changed), headers)
    with pytest.raises(svix.webhooks.WebhookVerificationError):
        svix.webhooks.Webhook(secret.value).verify(bytes(changed), headers)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_a_changed_header_is_rejected(name: str) -> None:
    secret = new_route_secret()
    headers = signed(secret)
    headers[name] = str(int(time.time()) - 1) if name == "webhook-timestamp" else "other"

    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(secret.value).verify(BODY, headers)


def test_during_a_rotation_the_old_and_the_new_secret_both_verify() -> None:
    old, new = new_route_secret(now_ms() + 60_000), new_route_secret()

    headers = signed(new, old)

    for secret in (old, new):
        standardwebhooks.Webhook(secret.value).verify(BODY, headers)
        svix.webhooks.Webhook(secret.value).verify(BODY, headers)


def test_after_the_rotation_the_old_secret_verifies_no_more() -> None:
    old, new = new_route_secret(now_ms() - 1), new_route_secret()

    headers = signed(new, old)

    standardwebhooks.Webhook(new.value).verify(BODY, headers)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(old.value).verify(BODY, headers)


def test_an_ed25519_key_signs_beside_a_secret() -> None:
    private, secret = new_private_key(os.urandom(32)), new_route_secret()

    headers = signed(RouteSecret(private), secret)

    standardwebhooks.Webhook(secret.value).verify(BODY, headers)
    public = public_key_of(private)
    assert public is not None
    assert public.startswith("whpk_")
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    entry = next(e for e in headers["webhook-signature"].split() if e.startswith("v1a,"))
    signature = base64.b64decode(entry.removeprefix("v1a,"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + BODY
    key.verify(signature, content)
    with pytest.raises(InvalidSignature):
        key.verify(signature, content + b" ")


def test_a_key_with_its_public_half_behind_it_is_the_same_key() -> None:
    seed = os.urandom(32)
    private = new_private_key(seed)
    public = public_key_of(private)
    assert public is not None
    both = "whsk_" + base64.b64encode(
        seed + base64.b64decode(public.removeprefix("whpk_"))
    ).decode()  # fmt: skip

    assert public_key_of(both) == public


def test_without_a_secret_there_is_no_signature() -> None:
    assert "webhook-signature" not in signed()
    assert public_key_of(new_secret(os.urandom(32))) is None


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_!!!", "secret", "whsec_c2hvcnQ=", "whsk_c2hvcnQ=", "whsk_"]
)
def test_a_secret_that_cannot_sign_is_refused_without_quoting_it(secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_secret(secret)

    assert not secret or secret in {"whsec_", "whsk_", "secret"} or secret not in str(caught.value)


def job(*, attempt: int = 1, redeliveries: int = 0) -> LeasedJob:
    return LeasedJob(
        WorkKey(KEY), 1, "rte_crm", AttemptKind.FIRST, attempt, 0, redeliveries, 1_000, 0, BODY
    )


def test_the_headers_of_an_attempt_are_those_of_the_contract() -> None:
    secret = new_route_secret()
    route = Route(
        id="rte_crm", workspace="default", name="crm", url="https://crm.example.com/",
        secrets=(secret,),
        headers={"X-Api-Key": "k", "Webhook-Id": "forged", "CONTENT-TYPE": "text/plain"},
    )  # fmt: skip

    headers = headers_of(route, job(attempt=3), BODY, now_ms=now_ms())

    assert headers["x-idempotency-key"] == headers["idempotency-key"] == KEY.hex()
    assert headers["webhook-id"] == KEY.hex()
    assert headers["content-type"] == "application/json"
    assert headers["x-mailonce-attempt"] == "3"
    assert headers["x-api-key"] == "k"
    assert "x-mailonce-redelivery" not in headers
    standardwebhooks.Webhook(secret.value).verify(BODY, headers)


def test_a_redelivery_says_so() -> None:
    route = Route(id="rte_crm", workspace="default", name="crm", url="https://crm.example.com/")

    headers = headers_of(route, job(redeliveries=2), BODY, now_ms=now_ms())

    assert headers["x-mailonce-redelivery"] == "2"
