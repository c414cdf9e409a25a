"""A secret with nothing in it, which everybody knows, is refused, and never proves anything."""

import hmac
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import VERIFIED, Refused, Verified
from mailonce.core.deliveries.signing import check_secret
from mailonce.core.sends.sender import Sender
from mailonce.core.signatures import refusal
from mailonce.errors import ConfigError
from mailonce.gate.rules.http import Request
from mailonce.gate.signature import mailwebhook
from mailonce.manage.senders import check_sender
from mailonce.manage.sources import check_source
from mailonce.pipeline.verify import EMPTY_SECRET, verify_now
from tests.providers.cases import NOW_S, arrival_of, provider_of, source_of
from tests.providers.signing import SCHEMES, Scheme

NOW = str(NOW_S)
# HMAC fills a key up with zeros: to it, the third and fourth are the first.
EMPTY = ("", " ", "\0", "\0" * 64, "\t\r\n", "\u200b", "\u00a0", "\ufeff")
# Those whose secret is the key as it is written.
PLAIN = [one for one in SCHEMES if one.source("x").secrets == ("x",)]


def test_most_schemes_are_of_a_plain_key() -> None:
    assert {"mailgun", "mandrill", "unisendergo", "mailwebhook"} <= {one.provider for one in PLAIN}


@pytest.mark.parametrize("scheme", PLAIN, ids=str)
def test_a_stored_empty_secret_proves_nothing(scheme: Scheme, subtests: pytest.Subtests) -> None:
    provider = provider_of(scheme.provider)
    for empty in EMPTY:
        with subtests.test(repr(empty)):
            alone = replace(scheme.source("x"), secrets=(empty,))
            rotated = replace(alone, secrets=("good", empty))
            forged = scheme.arrive(empty, NOW)

            assert verify_now(provider, alone, forged) == EMPTY_SECRET
            assert isinstance(verify_now(provider, rotated, forged), Refused)
            assert verify_now(provider, rotated, scheme.arrive("good", NOW)) == Verified()


def test_an_empty_secret_beside_another_proves_nothing_to_the_gate_either() -> None:
    [scheme] = [one for one in SCHEMES if one.name == "mailwebhook"]
    check = mailwebhook("good", "", freshness_s=10**9)

    def judge(secret: str) -> str | None:
        arrival = scheme.arrive(secret, NOW)
        request = Request(headers=tuple(arrival.headers.items()), body=arrival.body)
        return check(request, NOW_S * 1000)

    assert judge("good") is None
    assert judge("") == "wrong signature"


@pytest.mark.parametrize("provider", ["resend", "standardwebhooks", "mailonce", "loops"])
@pytest.mark.parametrize("key", [b"", b"\0" * 24, b" " * 24], ids=repr)
def test_nothing_behind_whsec_proves_nothing_and_is_refused(provider: str, key: bytes) -> None:
    secret = "whsec_" + b64encode(key).decode()
    source = source_of(provider, secrets=(secret,))
    signature = hmac.digest(key, f"msg_1.{NOW}.".encode() + b"{}", "sha256")
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": NOW,
        "webhook-signature": "v1," + b64encode(signature).decode(),
    }

    verdict = verify_now(provider_of(provider), source, arrival_of(b"{}", headers))

    assert isinstance(verdict, Refused)
    with pytest.raises(ConfigError, match="secret"):
        check_source(source, window_days=35)
    with pytest.raises(ConfigError, match="openssl rand -base64 24"):
        check_secret(secret)


@pytest.mark.parametrize(
    ("encoding", "secret", "key"),
    [("hex", "00", b"\0"), ("base64", "AAAA", b"\0\0\0"), ("hex", "", b"")],
)
def test_a_key_of_zeros_is_the_empty_one(encoding: str, secret: str, key: bytes) -> None:
    options = {"header": "x-sign", "key_encoding": encoding}
    source = source_of("hmac", secrets=(secret,), options=options)
    arrival = arrival_of(b"{}", {"x-sign": hmac.digest(key, b"{}", "sha256").hex()})

    verdict = verify_now(provider_of("hmac"), source, arrival)

    assert isinstance(verdict, Refused)
    with pytest.raises(ConfigError, match="secret"):
        check_source(source, window_days=35)


def _of_basic(words: str) -> dict[str, Any]:
    return {"headers": {"authorization": "Basic " + b64encode(words.encode()).decode()}}


@pytest.mark.parametrize(
    ("proofs", "given"),
    [
        ({"tokens": ("",)}, {"token": ""}),
        ({"tokens": ("",)}, {"query": "token="}),
        ({"tokens": ("",)}, {"headers": {"authorization": "Bearer "}}),
        ({"tokens": (" ",)}, {"query": "token=%20"}),
        ({"tokens": ("",)}, {}),
        ({"basic": (":",)}, _of_basic(":")),
        ({"basic": ("user:",)}, _of_basic("user:")),
        ({"basic": ("user: ",)}, _of_basic("user: ")),
        ({"headers": ("X-Word:",)}, {"headers": {"x-word": ""}}),
        ({"headers": ("X-Word: ",)}, {"headers": {}}),
        # What is demanded beside it is not enough.
        ({"headers": ("X-Word: ", "X-Other: w")}, {"headers": {"x-word": "", "x-other": "w"}}),
        ({"tokens": ("",), "allow_ips": ("127.0.0.1",)}, {"token": "", "peer": "127.0.0.1"}),
        ({"allow_ips": ("",)}, {"peer": "127.0.0.1"}),
    ],
)
def test_an_empty_proof_of_a_source_is_given_by_nobody(
    proofs: dict[str, Any], given: dict[str, Any]
) -> None:
    source = source_of("postmark", **proofs)
    arrival = Arrival(method="POST", body=b"{}", now_ms=NOW_S * 1000, **{"headers": {}, **given})

    verdict = verify_now(provider_of("postmark"), source, arrival)

    assert isinstance(verdict, Refused)
    with pytest.raises(ConfigError, match="empty"):
        check_source(source, window_days=35)


def test_what_is_beside_an_empty_proof_still_counts() -> None:
    source = source_of("postmark", tokens=("", "word"), headers=("X-Word: ", "X-Word: w"))
    headers = {"x-word": "w"}
    arrival = Arrival(method="POST", headers=headers, body=b"{}", now_ms=0, token="word")

    assert verify_now(provider_of("postmark"), source, arrival) == VERIFIED


def test_raw_delivery_with_an_empty_token_and_topic_is_refused() -> None:
    source = source_of("ses", tokens=("",), topic_arns=("",), options={"raw_delivery": True})
    headers = {"x-amz-sns-rawdelivery": "true", "x-amz-sns-topic-arn": ""}

    assert verify_now(provider_of("ses"), source, arrival_of(b"{}", headers)) == EMPTY_SECRET


def test_an_unproven_source_is_not_open_because_its_secret_is_empty() -> None:
    source = source_of("mailgun", secrets=("",), unproven=True)

    assert verify_now(provider_of("mailgun"), source, arrival_of(b"{}")) == EMPTY_SECRET


@pytest.mark.parametrize("name", providers.BUILTIN)
def test_an_empty_one_is_refused_with_a_remedy(name: str, subtests: pytest.Subtests) -> None:
    for given in (
        {"secrets": ("",)},
        {"secrets": ("good", " ")},
        {"public_keys": ("",)},
        {"tokens": ("",)},
        {"basic": ("user:",)},
        {"headers": ("X-Word: ",)},
        {"allow_ips": ("10.0.0.1", "")},
        {"topic_arns": ("",)},
        {"api_keys": ("",)},
    ):
        with subtests.test(str(given)), pytest.raises(ConfigError) as refused:
            check_source(source_of(name, unproven=True, **given), window_days=35)
        assert "has an empty value" in str(refused.value)
        assert "give the one that the provider has" in str(refused.value)


def test_a_sender_without_a_word_of_a_key_is_refused() -> None:
    sender = Sender(id="s", workspace="w", name="out", provider="postmark", secrets=("",))

    with pytest.raises(ConfigError, match="needs `secret`; add it"):
        check_sender(sender)


def test_who_sends_to_a_source_with_an_empty_secret_may_try_again() -> None:
    codes = provider_of("ses").codes

    assert refusal.code_of(EMPTY_SECRET.reason, codes) == codes.later
    assert "source set" in refusal.advice_of(EMPTY_SECRET.reason, "main")
    assert not refusal.is_final(EMPTY_SECRET.reason, provider_of("ses"))
