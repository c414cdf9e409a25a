"""Standard Webhooks: the reference library signs, we verify."""

import base64
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import EventType
from mailonce.core.events.key import EventKeys, KeyScope, keys_of
from mailonce.errors import ParseError
from mailonce.providers.standardwebhooks import PROVIDER
from tests.providers.cases import cases_of

# The vector of the fact sheet's Appendix D.
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
TS = 1767225600
BODY = b'{"type":"email.delivered","n":1}'
VECTOR = "v1,JqYTzFHAWDbq2qce4zEY8YeYwmNOdyUMq7L0H+pWKis="

OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of many bytes").decode()
SOURCE = Source(
    id="src_1",
    workspace="default",
    name="std",
    provider="standardwebhooks",
    account="std",
    secrets=(SECRET,),
)
SCOPE = KeyScope("default", "standardwebhooks", "std")


def headers(
    signature: str = VECTOR, *, id_: str = "msg_1", ts: str = str(TS), family: str = "webhook-"
) -> dict[str, str]:
    return {f"{family}id": id_, f"{family}timestamp": ts, f"{family}signature": signature}


def signed(body: bytes, secret: str = SECRET, id_: str = "msg_1", ts: int = TS) -> str:
    moment = datetime.fromtimestamp(ts, UTC)
    return str(Webhook(secret).sign(msg_id=id_, timestamp=moment, data=body.decode()))


def arrive(fields: dict[str, str], body: bytes = BODY, now_s: float = TS) -> Arrival:
    return Arrival(method="POST", headers=fields, body=body, now_ms=round(now_s * 1000))


def verdict(fields: dict[str, str], source: Source = SOURCE, **more: Any) -> Verdict:
    return PROVIDER.verify(arrive(fields, **more), source, {})


def keys(body: Any, options: dict[str, Any] | None = None, id_: str = "msg_1") -> EventKeys:
    arrival = arrive(headers(id_=id_), json.dumps(body).encode())
    [event] = PROVIDER.parse(arrival, replace(SOURCE, options=options or {})).events
    return keys_of(SCOPE, event.identity)


def test_the_options_of_each_golden_case_are_accepted(subtests: pytest.Subtests) -> None:
    for case in cases_of("standardwebhooks"):
        with subtests.test(case.name):
            assert PROVIDER.check(replace(SOURCE, options=case.options)) is None


# Who may speak


@pytest.mark.parametrize("family", ["webhook-", "svix-"])
def test_the_published_vector_is_verified_under_both_families_of_headers(family: str) -> None:
    assert verdict(headers(family=family)) == Verified()


@pytest.mark.parametrize("body", [b"{}", '{"type":"é"}'.encode(), b'{"a": 1}\r\n'])
def test_what_the_reference_library_signs_is_verified(body: bytes) -> None:
    assert verdict(headers(signed(body)), body=body) == Verified()


def test_a_body_that_is_no_text_is_verified_as_bytes() -> None:
    assert verdict(headers(), body=b"\xff\xfe") == Refused("wrong signature")


@pytest.mark.parametrize(
    "said",
    [
        headers(VECTOR.replace("J", "K", 1)),
        headers(VECTOR.replace("v1,", "v2,")),
        headers(VECTOR.removeprefix("v1,")),
        headers("v1," + "A" * 44),
        headers("v1,%%% v1 ,, v1,"),
        headers(id_="msg_2"),
        headers(ts=str(TS + 1)),
        headers(" ".join(["v1,AAAA"] * 16 + [VECTOR])),
    ],
)
def test_another_signature_id_or_time_is_refused(said: dict[str, str]) -> None:
    assert verdict(said) == Refused("wrong signature")


def test_a_changed_byte_of_the_body_is_refused() -> None:
    assert verdict(headers(), body=BODY + b" ") == Refused("wrong signature")


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_a_missing_header_is_refused(name: str) -> None:
    fields = headers()

    del fields[f"webhook-{name}"]

    assert verdict(fields) == Refused("missing signature")


@pytest.mark.parametrize("ts", ["", "now", "1767225600.0", "-1", "+1767225600", "\uff11767225600"])
def test_a_timestamp_that_is_not_decimal_is_refused(ts: str) -> None:
    assert isinstance(verdict(headers(ts=ts)), Refused)


@pytest.mark.parametrize("id_", ["msg 1", "msg\n1", "ä", "m" * 257])
def test_an_id_that_is_not_plain_is_refused(id_: str) -> None:
    assert verdict(headers(id_=id_)) == Refused("message id is not plain")


@pytest.mark.parametrize("edge_s", [-300, 300])
def test_a_timestamp_is_fresh_up_to_the_edge_and_not_beyond(edge_s: int) -> None:
    beyond_s = edge_s * 1.01

    assert verdict(headers(), now_s=TS + edge_s) == Verified()
    assert verdict(headers(), now_s=TS + beyond_s) == Refused("stale timestamp")


def test_either_side_may_rotate() -> None:
    both = replace(SOURCE, secrets=(OTHER_SECRET, SECRET))
    two = f"{signed(BODY, OTHER_SECRET)} {VECTOR}"

    assert verdict(headers(), both) == Verified()
    assert verdict(headers(two)) == Verified()
    assert verdict(headers(), replace(SOURCE, secrets=(OTHER_SECRET,))) == Refused(
        "wrong signature"
    )


@pytest.mark.parametrize("length", [24, 25, 26])
def test_a_secret_without_prefix_or_padding_is_the_same_secret(length: int) -> None:
    text = base64.b64encode(bytes(range(length))).decode()
    fields = headers(signed(BODY, "whsec_" + text))

    for secret in (f"whsec_{text}", text, text.rstrip("="), f"whsec_{text.rstrip('=')}"):
        assert verdict(fields, replace(SOURCE, secrets=(secret,))) == Verified()


def test_a_raw_secret_is_used_as_it_is_written() -> None:
    source = replace(SOURCE, secrets=("plain text!",), options={"secret_encoding": "raw"})
    as_base64 = base64.b64encode(b"plain text!").decode()

    assert verdict(headers(signed(BODY, as_base64)), source) == Verified()
    assert verdict(headers(signed(BODY, as_base64)), replace(source, options={})) == Refused(
        "wrong signature"
    )


@pytest.mark.parametrize("secret", ["", "whsec_"])
def test_an_empty_secret_proves_nothing(secret: str) -> None:
    empty = base64.b64encode(hmac.digest(b"", f"msg_1.{TS}.".encode() + BODY, "sha256")).decode()

    assert verdict(headers(f"v1,{empty}"), replace(SOURCE, secrets=(secret,))) == Refused(
        "wrong signature"
    )


def test_an_ed25519_signature_is_verified_by_its_public_key_only() -> None:
    private = Ed25519PrivateKey.generate()
    public = "whpk_" + base64.b64encode(private.public_key().public_bytes_raw()).decode()
    signature = base64.b64encode(private.sign(f"msg_1.{TS}.".encode() + BODY)).decode()
    source = replace(SOURCE, secrets=(), public_keys=("whpk_broken", public))

    assert verdict(headers(f"v1,zzz v1a,{signature}"), source) == Verified()
    assert verdict(headers(f"v1,{signature}"), source) == Refused("wrong signature")
    assert verdict(headers(f"v1a,{signature}")) == Refused("wrong signature")


# How copies are known


def test_the_id_that_counts_is_the_one_that_was_signed() -> None:
    fields = {**headers(family="svix-"), "webhook-id": "forged"}

    assert verdict(fields) == Verified()
    assert PROVIDER.parse(arrive(fields), SOURCE).delivery_id == "msg_1"


def test_an_enriched_copy_is_a_copy_and_another_recipient_is_a_conflict() -> None:
    plain = {"type": "email.opened", "data": {"id": "m1", "to": "a@x.test"}}
    enriched = {**plain, "data": {**plain["data"], "geo": "DE"}}  # type: ignore[dict-item]
    moved = {**plain, "data": {**plain["data"], "to": "b@x.test"}}  # type: ignore[dict-item]

    assert keys(enriched) == keys(plain)
    assert keys(moved).key == keys(plain).key
    assert keys(moved).fingerprint != keys(plain).fingerprint


def test_another_message_id_is_another_event() -> None:
    assert keys({"type": "x"}, id_="msg_1").key != keys({"type": "x"}, id_="msg_2").key


def test_a_configured_event_id_goes_before_the_header() -> None:
    options = {"event_id": "/id"}

    assert keys({"id": "e1"}, options, id_="msg_1") == keys({"id": "e1"}, options, id_="msg_2")
    assert keys({"id": "e1"}, options).key != keys({"id": "e2"}, options).key


def test_where_the_configured_event_id_is_missing_the_header_is_not_believed() -> None:
    options = {"event_id": "/id"}

    assert keys({"type": "a"}, options).key != keys({"type": "b"}, options).key


# Settings


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"secrets": ()}, "'secret'"),
        ({"secrets": ("whsec_?",)}, "secret_encoding"),
        ({"secrets": ("whsec_xx",)}, "shorter than 16 bytes"),
        ({"secrets": (SECRET, SECRET[:20])}, "shorter than 16 bytes"),
        ({"secrets": (), "public_keys": ("whpk_AAAA",)}, "'public_key'"),
        ({"options": {"secret_encoding": "rot13"}}, "secret_encoding"),
        ({"options": {"type": "type"}}, "'type'"),
        ({"options": {"recipient": ["/a", 5]}}, "'recipient'"),
        ({"options": {"words": ["x"]}}, "'words'"),
        ({"options": {"words": {"x": "vanished"}}}, "'vanished'"),
        ({"options": {"words": {"x": "bounced:badly"}}}, "'bounced:badly'"),
    ],
)
def test_each_fault_of_a_source_is_named(change: dict[str, Any], word: str) -> None:
    assert word in (PROVIDER.check(replace(SOURCE, **change)) or "")


# Hostile bodies


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"null", b"\xff", b"[" * 5000])
def test_what_is_no_object_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        PROVIDER.parse(arrive(headers(), body), SOURCE)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(["type", "timestamp", "data", "bounce", "recipient", "reason", "url"])
INNER = st.sampled_from(["id", "email_id", "to", "recipient", "email", "bounce", "click"])


@given(body=st.dictionaries(NAMES, JSON | st.dictionaries(INNER, JSON)), options=JSON)
def test_any_object_is_an_event_whatever_the_options(body: Any, options: Any) -> None:
    source = replace(SOURCE, options={"words": options, "time": options, "event_id": options})
    PROVIDER.check(source)

    for one in (SOURCE, source):
        [event] = PROVIDER.parse(arrive(headers(), json.dumps(body).encode()), one).events
        assert event.type in EventType
        keys_of(SCOPE, event.identity)


@given(
    said=st.dictionaries(
        st.sampled_from([*headers(), *headers(family="svix-")]), st.text(max_size=60)
    )
)
def test_any_headers_are_refused_without_an_error(said: dict[str, str]) -> None:
    assert isinstance(verdict(said), Refused)
