"""Mailhook: configured HMAC, of which every event is a mail that came in."""

from typing import Any

import pytest

from mailonce.core.arrivals.provider import Refused, Verified
from mailonce.core.signatures import hmac_signature as schemes
from tests.providers.cases import (
    NOW_S,
    arrival_of,
    cases_of,
    keys,
    parse,
    provider_of,
    source_of,
)

# The vectors of the fact sheet's Appendix D.
BODY = b'{"type":"email.delivered","n":1}'
BODY_ONLY = "ab5edbd837379d007aeabcea1c65181ccfae0473b56989ba1c1924af40bf773d"
TS_BODY = "b85aa4d9d97d221c71c40ee2076c4442f6fea1422934456317585e99f8b4b2a4"
PROVIDER = provider_of("mailhook")
WITH_TS = {"header": "X-Sig", "timestamp_header": "X-Ts", "template": "{ts}.{body}"}


def test_the_options_of_each_golden_case_are_accepted(subtests: pytest.Subtests) -> None:
    for case in cases_of("mailhook"):
        with subtests.test(case.name):
            source = source_of("mailhook", secrets=("s3cret",), options=case.options)

            assert PROVIDER.check(source) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"header": "X-Signature"}, {"X-Signature": BODY_ONLY}),
        (
            {"header": "X-Signature", "prefix": "sha256="},
            {"X-Signature": f"sha256={BODY_ONLY}"},
        ),
        (WITH_TS, {"X-Sig": TS_BODY, "X-Ts": str(NOW_S)}),
    ],
    ids=["body", "prefix", "timestamp"],
)
def test_the_signature_is_of_the_form_that_the_options_describe(
    options: dict[str, Any], said: dict[str, str]
) -> None:
    old, new = (
        source_of("mailhook", secrets=secrets, options=options)
        for secrets in (("s3cret",), ("new", "s3cret"))
    )

    assert PROVIDER.verify(arrival_of(BODY, said), old, {}) == Verified()
    assert PROVIDER.verify(arrival_of(BODY, said), new, {}) == Verified()
    assert PROVIDER.verify(arrival_of(BODY + b" ", said), old, {}) == schemes.WRONG
    assert PROVIDER.verify(arrival_of(BODY), old, {}) == schemes.MISSING


def test_a_signed_time_counts_to_the_end_of_its_window() -> None:
    source = source_of("mailhook", secrets=("s3cret",), options=WITH_TS)
    headers = {"X-Sig": TS_BODY, "X-Ts": str(NOW_S)}

    verdicts = [
        PROVIDER.verify(arrival_of(BODY, headers, now_s=NOW_S + age_s), source, {})
        for age_s in (-301, -300, 300, 301)
    ]

    assert verdicts == [schemes.STALE, Verified(), Verified(), schemes.STALE]


def test_a_source_that_names_no_header_believes_nobody() -> None:
    source = source_of("mailhook", secrets=("s3cret",))

    verdict = PROVIDER.verify(arrival_of(BODY, {"X-Signature": BODY_ONLY}), source, {})

    assert verdict == Refused("source is not configured")
    assert "'header'" in (PROVIDER.check(source) or "")


def test_one_bad_element_does_not_cost_the_others() -> None:
    parsed = parse("mailhook", b'[{"data":{"id":"m1"}}, 7, {"data":{"id":"m2"}}]')

    assert [event.message_id for event in parsed.events] == ["m1", "m2"]
    assert [(one.position, one.raw) for one in parsed.unreadable] == [(1, b"7")]


def test_without_an_event_id_the_whole_mail_is_the_identity() -> None:
    [one], [same], [other] = (
        keys("mailhook", body) for body in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 2})
    )

    assert one == same
    assert one.key != other.key
