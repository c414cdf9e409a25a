"""Configured HMAC: the forms that senders are known to use, and what must not pass."""

import base64
import contextlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.key import KeyScope, keys_of
from mailonce.core.signatures.configured_hmac import TEMPLATES
from mailonce.errors import ParseError
from mailonce.providers.hmac import PROVIDER
from tests.providers.cases import cases_of

# The vectors of the fact sheet's Appendix D.
TS = 1767225600
BODY = b'{"type":"email.delivered","n":1}'
BODY_ONLY = "ab5edbd837379d007aeabcea1c65181ccfae0473b56989ba1c1924af40bf773d"
TS_BODY = "b85aa4d9d97d221c71c40ee2076c4442f6fea1422934456317585e99f8b4b2a4"
CUSTOMER_IO = "02b7c75b6fce77bc043f5b93d0856ecf4ea73ab7c374c192dc0dd538e605da85"
EMAILIT = "7cd2aa0efd51accc98fce907447d90df4518b04942be4b6f42105444a8823f9a"
STANDARD = "JqYTzFHAWDbq2qce4zEY8YeYwmNOdyUMq7L0H+pWKis="

SCOPE = KeyScope("default", "hmac", "h")
WITH_TS = {"header": "X-Sig", "timestamp_header": "X-Ts", "template": "{ts}.{body}"}


def source(options: dict[str, Any], *secrets: str) -> Source:
    return Source(
        id="src_1",
        workspace="default",
        name="h",
        provider="hmac",
        account="h",
        secrets=secrets or ("s3cret",),
        options=options,
    )


def arrive(headers: dict[str, str], body: bytes = BODY, now_s: float = TS) -> Arrival:
    return Arrival(method="POST", headers=headers, body=body, now_ms=round(now_s * 1000))


def verdict(
    options: dict[str, Any], headers: dict[str, str], *secrets: str, **more: Any
) -> Verdict:
    return PROVIDER.verify(arrive(headers, **more), source(options, *secrets), {})


def test_the_options_of_each_golden_case_are_accepted(subtests: pytest.Subtests) -> None:
    for case in cases_of("hmac"):
        with subtests.test(case.name):
            assert PROVIDER.check(source(dict(case.options))) is None


# Who may speak


@pytest.mark.parametrize(
    ("options", "said", "secret"),
    [
        ({"header": "Signature"}, {"signature": BODY_ONLY}, "s3cret"),
        (
            {"header": "X-SM-Signature", "prefix": "sha256="},
            {"x-sm-signature": f"sha256={BODY_ONLY}"},
            "s3cret",
        ),
        (WITH_TS, {"x-sig": TS_BODY, "x-ts": str(TS)}, "s3cret"),
        (WITH_TS, {"x-sig": TS_BODY.upper(), "x-ts": str(TS)}, "s3cret"),
        (WITH_TS, {"x-sig": EMAILIT, "x-ts": str(TS)}, "whsec_" + "ab" * 32),
        (
            {**WITH_TS, "template": "v0:{ts}:{body}"},
            {"x-sig": CUSTOMER_IO, "x-ts": str(TS)},
            "s3cret",
        ),
        (
            {
                **WITH_TS,
                "template": "{id}.{ts}.{body}",
                "id_header": "X-Id",
                "prefix": "v1,",
                "encoding": "base64",
                "key_encoding": "base64",
            },
            {"x-sig": f"v1,{STANDARD}", "x-ts": str(TS), "x-id": "msg_1"},
            "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",
        ),
    ],
    ids=["body", "prefix", "ts.body", "upper case", "emailit", "customer.io", "standard webhooks"],
)
def test_a_published_vector_is_verified(
    options: dict[str, Any], said: dict[str, str], secret: str
) -> None:
    assert PROVIDER.check(source(options, secret)) is None
    assert verdict(options, said, secret) == Verified()
    assert verdict(options, said, secret, body=BODY + b"\n") == Refused("wrong signature")
    assert verdict(options, said, "MDEy", "5ec4") == Refused("wrong signature")


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_each_algorithm_and_encoding_is_its_own(algorithm: str, encoding: str) -> None:
    digest = hmac.digest(b"\x01\x02", BODY, algorithm)
    text = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
    options = {"header": "s", "encoding": encoding, "key_encoding": "hex", "algorithm": algorithm}
    other = {**options, "algorithm": "sha1" if algorithm != "sha1" else "sha256"}

    assert verdict(options, {"s": text}, "0102") == Verified()
    assert verdict(other, {"s": text}, "0102") == Refused("wrong signature")


def test_any_of_two_secrets_passes_during_a_rotation() -> None:
    assert verdict({"header": "s"}, {"s": BODY_ONLY}, "new", "s3cret") == Verified()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "missing signature"),
        ({"x-sig": TS_BODY}, "missing signature"),
        ({"x-sig": "", "x-ts": str(TS)}, "missing signature"),
        ({"x-sig": TS_BODY, "x-ts": "soon"}, "timestamp is not a number"),
        ({"x-sig": TS_BODY, "x-ts": str(TS + 1)}, "wrong signature"),
        ({"x-sig": TS_BODY[:-1], "x-ts": str(TS)}, "wrong signature"),
        ({"x-sig": "ä", "x-ts": str(TS)}, "wrong signature"),
    ],
)
def test_what_is_missing_or_broken_is_refused(said: dict[str, str], reason: str) -> None:
    assert verdict(WITH_TS, said) == Refused(reason)


def test_a_missing_prefix_is_refused() -> None:
    options = {"header": "s", "prefix": "sha256="}

    assert verdict(options, {"s": BODY_ONLY}) == Refused("wrong signature")


@pytest.mark.parametrize("edge_s", [-300, 300])
def test_a_timestamp_is_fresh_up_to_the_edge_and_not_beyond(edge_s: int) -> None:
    headers = {"x-sig": TS_BODY, "x-ts": str(TS)}

    assert verdict(WITH_TS, headers, now_s=TS + edge_s) == Verified()
    assert verdict(WITH_TS, headers, now_s=TS + edge_s * 1.01) == Refused("stale timestamp")


def test_a_body_with_braces_is_signed_as_it_is() -> None:
    body = b"{ts}{id}{body}"
    digest = hmac.digest(b"s3cret", b"%d." % TS + body, "sha256").hex()

    assert verdict(WITH_TS, {"x-sig": digest, "x-ts": str(TS)}, body=body) == Verified()


def test_an_id_that_is_not_plain_is_refused() -> None:
    options = {**WITH_TS, "template": "{id}.{ts}.{body}", "id_header": "X-Id"}

    refusal = verdict(options, {"x-sig": TS_BODY, "x-ts": str(TS), "x-id": "a b"})

    assert refusal == Refused("message id is not plain")


def test_a_source_whose_options_cannot_work_refuses_everything() -> None:
    digest = hmac.digest(b"", BODY, "sha256").hex()

    assert verdict({}, {"": BODY_ONLY}) == Refused("source is not configured")
    assert verdict({"header": "s"}, {"s": digest}, "") == Refused("wrong signature")


# How copies are known


def key(element: Any, options: dict[str, Any]) -> tuple[bytes, bytes]:
    body = json.dumps(element).encode()
    [event] = PROVIDER.parse(arrive({}, body), source({"header": "s", **options})).events
    event_keys = keys_of(SCOPE, event.identity)
    return event_keys.key, event_keys.fingerprint


def test_without_an_event_id_the_whole_element_is_the_identity() -> None:
    assert key({"a": 1, "b": 2}, {}) == key({"b": 2, "a": 1}, {})
    assert key({"a": 1}, {})[0] != key({"a": 2}, {})[0]


def test_with_an_event_id_the_rest_may_be_enriched() -> None:
    options = {"event_id": "/id"}

    assert key({"id": "e1", "type": "opened"}, options) == key(
        {"id": "e1", "type": "opened", "geo": "DE"}, options
    )
    assert (
        key({"id": "e1", "type": "opened"}, options)[1]
        != key({"id": "e1", "type": "clicked"}, options)[1]
    )


def test_only_a_signed_id_names_the_delivery() -> None:
    signed = {**WITH_TS, "template": "{id}.{ts}.{body}", "id_header": "X-Id"}

    assert PROVIDER.parse(arrive({"x-id": "d1"}), source(signed)).delivery_id == "d1"
    assert (
        PROVIDER.parse(arrive({"x-id": "d1"}), source({**WITH_TS, "id_header": "x-id"})).delivery_id
        is None
    )


# Settings


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "'header'"),
        ({"header": "a b"}, "'header'"),
        ({"header": 5}, "'header'"),
        ({"header": "s", "template": "{body}{ts}"}, "'template'"),
        ({"header": "s", "template": "{ts}.{body}"}, "'timestamp_header'"),
        ({**WITH_TS, "template": "{id}.{ts}.{body}"}, "'id_header'"),
        ({"header": "s", "encoding": "base32"}, "'encoding'"),
        ({"header": "s", "algorithm": "md5"}, "'algorithm'"),
        ({"header": "s", "key_encoding": "rot13"}, "'key_encoding'"),
        ({"header": "s", "key_encoding": "hex"}, "'secret' is not hex"),
        ({"header": "s", "elements": "events"}, "'elements'"),
        ({"header": "s", "words": {"x": "y"}}, "'words'"),
    ],
)
def test_each_fault_of_a_source_is_named(options: dict[str, Any], word: str) -> None:
    assert word in (PROVIDER.check(source(options)) or "")


def test_a_source_without_a_secret_is_a_fault() -> None:
    assert "'secret'" in (PROVIDER.check(replace(source({"header": "s"}), secrets=())) or "")


# Hostile bodies


def test_one_bad_element_does_not_cost_the_others() -> None:
    parsed = PROVIDER.parse(arrive({}, b'[{"type":"opened"}, 7, {"type":"clicked"}]'), source({}))

    assert [event.type for event in parsed.events] == ["opened", "clicked"]
    assert [(one.position, one.raw) for one in parsed.unreadable] == [(1, b"7")]


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (b"", {}),
        (b"7", {}),
        (b"null", {}),
        (b"{", {}),
        (b'{"events": {}}', {"elements": "/events"}),
        (b"{}", {"elements": "/events"}),
        (b"[]", {"elements": "/events"}),
        (b"[", {"elements": "/events"}),
    ],
)
def test_what_holds_no_events_is_a_parse_error(body: bytes, options: dict[str, Any]) -> None:
    with pytest.raises(ParseError):
        PROVIDER.parse(arrive({}, body), source(options))


def test_an_empty_list_is_a_probe() -> None:
    assert PROVIDER.parse(arrive({}, b"[]"), source({})).events == ()


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=9)
    | st.lists(st.text(), max_size=2)
)
OPTIONS = st.dictionaries(
    st.sampled_from(
        [
            "header",
            "prefix",
            "template",
            "timestamp_header",
            "id_header",
            "encoding",
            "key_encoding",
            "algorithm",
            "elements",
            "type",
            "recipient",
            "words",
            "event_id",
        ]
    ),
    VALUES | st.sampled_from(TEMPLATES),
)


@given(
    options=OPTIONS,
    said=st.dictionaries(st.text(max_size=9), st.text(max_size=9)),
    body=st.binary(),
)
def test_no_options_headers_or_bodies_raise_anything_but_a_parse_error(
    options: dict[str, Any], said: dict[str, str], body: bytes
) -> None:
    configured = source(options)

    assert isinstance(PROVIDER.verify(arrive(said, body), configured, {}), Refused)
    PROVIDER.check(configured)
    for raw in (body, b'{"type": "opened", "data": {}}'):
        with contextlib.suppress(ParseError):
            PROVIDER.parse(arrive(said, raw), configured)
