"""Postal: keys in every form that it shows them, and what is one event for several webhooks."""

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mailonce.core.arrivals.provider import Parsed, Refused, Verified
from mailonce.core.signatures import hmac_signature
from mailonce.providers.postal import PROVIDER
from tests.providers.cases import arrival_of, find, keys, parse, source_of
from tests.providers.signing import (
    postal_key,
    postal_public_key,
    sendgrid_public_key,
    sign_postal,
    sign_postal_sha1,
)

BODY = b'{"event":"MessageSent","payload":{},"uuid":"u1"}'
SHA256 = {"X-Postal-Signature-256": sign_postal("old", BODY, "")}
SHA1 = {"X-Postal-Signature": sign_postal_sha1("old", BODY, "")}


def jwk(name: str) -> dict[str, str]:
    numbers = postal_key(name).public_key().public_numbers()
    e, n = (
        urlsafe_b64encode(one.to_bytes((one.bit_length() + 7) // 8)).decode().rstrip("=")
        for one in (numbers.e, numbers.n)
    )
    return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "e": e, "n": n}


def pem(name: str) -> str:
    public_key = postal_key(name).public_key()
    return public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize(
    "key",
    [
        pem("old"),
        postal_public_key("old"),
        f"v=DKIM1; t=s; h=sha256; p={postal_public_key('old')};",
        f'"v=DKIM1; p={postal_public_key("old")[:200]}" "{postal_public_key("old")[200:]}"',
        json.dumps(jwk("old")),
        json.dumps({"keys": [jwk("new"), jwk("old")]}),
        json.dumps({"keys": [{"kty": "EC", "crv": "P-256"}, jwk("old")]}),
    ],
    ids=["PEM", "p=", "DKIM record", "split record", "JWK", "JWKS", "mixed JWKS"],
)
def test_a_key_counts_in_every_form_that_postal_shows(key: str) -> None:
    source = source_of("postal", public_keys=(key,))

    assert PROVIDER.verify(arrival_of(BODY, SHA256), source, {}) == Verified()
    assert PROVIDER.check(source) is None


@pytest.mark.parametrize(
    "key",
    ["", "é", "p=", "{", "{}", '{"keys":7}', "[" * 9_999, "\ud800", sendgrid_public_key("old")],
    ids=repr,
)
def test_a_key_that_cannot_work_is_named_and_believed_by_nobody(key: str) -> None:
    source = source_of("postal", public_keys=(key,))

    assert PROVIDER.verify(arrival_of(BODY, SHA256), source, {}) == Refused("no usable public key")
    assert "public_key" in (PROVIDER.check(source) or "")


def test_the_weaker_signature_counts_only_where_the_source_says_so() -> None:
    key = (postal_public_key("old"),)
    plain = source_of("postal", public_keys=key)
    legacy = source_of("postal", public_keys=key, options={"signature": "sha1"})

    verdicts = [
        PROVIDER.verify(arrival_of(BODY, SHA1), plain, {}),
        PROVIDER.verify(arrival_of(BODY, {**SHA1, **SHA256}), plain, {}),
        PROVIDER.verify(arrival_of(BODY, SHA1), legacy, {}),
    ]

    assert verdicts == [hmac_signature.MISSING, Verified(), Verified()]


@pytest.mark.parametrize("options", [{"signature": "md5"}, {"held": "x"}, {"held": ["rejected"]}])
def test_an_unknown_option_is_named(options: dict[str, Any]) -> None:
    source = source_of("postal", public_keys=(postal_public_key("old"),), options=options)

    assert next(iter(options)) in (PROVIDER.check(source) or "")


@pytest.mark.parametrize("name", ["sent", "delivery_failed", "held", "bounced"])
def test_two_webhooks_speak_of_one_event(name: str) -> None:
    value = find("postal", name).value

    other_hook = {**value, "uuid": "another", "timestamp": value["timestamp"] + 0.003}

    assert keys("postal", value) == keys("postal", other_hook)


def test_a_request_is_known_by_its_uuid() -> None:
    parsed = parse("postal", find("postal", "sent").value)

    assert parsed.delivery_id == "9be13015-2e54-456c-bf66-eacbe33da824"


def test_what_happens_to_incoming_mail_is_acknowledged_without_events() -> None:
    parsed = parse("postal", find("postal", "incoming").value)

    assert parsed == Parsed(delivery_id="9be13015-2e54-456c-bf66-eacbe33da824")
