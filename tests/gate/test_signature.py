"""Signatures: proven before anything is looked up, against vectors and an outside signer."""

import json
import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from mailonce.errors import ConfigError
from mailonce.gate import Gate, Outcome, Policy, Request
from mailonce.gate.rules.policy import Verify
from mailonce.gate.signature import mailonce, mailwebhook, standard_webhooks, webhook_id
from tests.gate.gates import DONE, store_of
from tests.gate.places import Place

# Computed with another tool over this body at this time.
BODY = b'{"type":"email.delivered","n":1}'
AT_MS = 1_767_225_600_000
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
MAILWEBHOOK = "uFqk2dl9IhxxxA7iB2xEQvb+oUIpNEVjF1hemfi0sqQ="


def signed_by_mailwebhook(value: str = f"t=1767225600, kid=k1, v1={MAILWEBHOOK}") -> Request:
    return Request(headers=(("X-MailWebhook-Signature", value),), body=BODY)


def signed_by_standard(id_: str = "k-1", *more: tuple[str, str], body: bytes = BODY) -> Request:
    now = int(time.time())
    signature = Webhook(SECRET).sign(id_, datetime.fromtimestamp(now, UTC), body.decode())
    pairs = (
        ("Webhook-Id", id_),
        ("Webhook-Timestamp", str(now)),
        ("Webhook-Signature", signature),
    )
    return Request(headers=(*pairs, *more), body=body)


def test_mailwebhooks_vector_holds_within_its_window_only() -> None:
    verify = mailwebhook("other", "s3cret")

    assert verify(signed_by_mailwebhook(), AT_MS) is None
    assert verify(signed_by_mailwebhook(), AT_MS + 301_000) == "stale timestamp"
    assert verify(signed_by_mailwebhook(), AT_MS - 301_000) == "stale timestamp"
    assert mailwebhook("s3cret", freshness_s=0)(signed_by_mailwebhook(), 0) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"v1={MAILWEBHOOK}",
        f"t=1767225601, kid=k1, v1={MAILWEBHOOK}",
        f"t=1767225600, v1=AAAA{MAILWEBHOOK}",
        f"t=1767225600, t=1767225600, v1={MAILWEBHOOK}",
    ],
)
def test_a_header_that_proves_nothing_is_refused(value: str) -> None:
    assert mailwebhook("s3cret")(signed_by_mailwebhook(value), AT_MS) is not None


@pytest.mark.parametrize("make", [standard_webhooks, mailonce])
def test_an_outside_signer_is_proven_and_a_changed_body_is_not(
    make: Callable[[str, str], Verify],
) -> None:
    verify = make("whsec_" + b64encode(b"a secret that is new").decode(), SECRET)
    request = signed_by_standard()
    forged = Request(headers=request.headers, body=BODY + b" ")

    now_ms = int(time.time() * 1000)

    assert verify(request, now_ms) is None
    assert verify(forged, now_ms) == "wrong signature"
    assert verify(Request(body=BODY), now_ms) == "missing signature"


def test_our_own_deliveries_have_no_other_key_than_the_signed_one() -> None:
    verify = mailonce(SECRET)
    now_ms = int(time.time() * 1000)

    same = signed_by_standard("k-1", ("X-Idempotency-Key", "k-1"), ("Idempotency-Key", "k-1"))
    other = signed_by_standard("k-1", ("X-Idempotency-Key", "k-2"))

    assert verify(same, now_ms) is None
    assert verify(other, now_ms) == "key is not the signed one"
    assert standard_webhooks(SECRET)(other, now_ms) is None


def test_of_a_repeated_id_the_signed_one_is_the_key() -> None:
    request = signed_by_standard("k-1")
    smuggled = Request(headers=(("webhook-id", "k-2"), *request.headers), body=BODY)

    assert standard_webhooks(SECRET)(smuggled, int(time.time() * 1000)) is None
    assert webhook_id(smuggled) == "k-1"


def test_a_wrong_signature_writes_nothing_and_a_right_one_is_a_key(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Policy(verify=standard_webhooks(SECRET), key=webhook_id)
    gate = Gate(store_of(place), policy)
    request = signed_by_standard()

    forged = gate.run(Request(headers=request.headers, body=b"{}"), lambda _: DONE)
    written = place.records()
    outcomes = [gate.run(request, lambda _: DONE).outcome for _ in range(2)]

    assert (forged.outcome, forged.response.status) == (Outcome.UNPROVEN, 401)
    assert ("www-authenticate", 'Signature realm="mailonce"') in forged.response.headers
    assert json.loads(forged.response.body) == {"error": "wrong signature"}
    assert caplog.messages == ["a request was refused with 401: wrong signature"]
    assert written == 0
    assert outcomes == [Outcome.FIRST, Outcome.REPLAYED]


@pytest.mark.parametrize("make", [standard_webhooks, mailonce, mailwebhook])
def test_a_gate_without_a_secret_is_refused(make: Callable[..., Verify]) -> None:
    for secrets in ((), ("",)):
        with pytest.raises(ConfigError):
            make(*secrets)
