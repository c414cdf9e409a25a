"""An expectation is narrowed, never widened."""

from typing import Any

import pytest

from mailonce.core.expectations.expectation import Expectation
from mailonce.core.expectations.narrow import NarrowRequest, narrow
from mailonce.errors import AccessError, ParseError
from tests.core.expectations.cases import CODE, LINK, NOON_MS, STATE, expectation, policy


def narrowed(known: Expectation, **fields: Any) -> Expectation:
    return narrow(known, NarrowRequest(**fields))


CODES = expectation(policy(CODE, senders=("@shop.example",), code_format="digits:6"), resends=2)
LINKS = expectation(policy(LINK, link_hosts=("shop.example",), require_dmarc=True))
STATES = expectation(policy(STATE, states=("paid", "failed")))


def test_what_asks_for_less_is_taken() -> None:
    less = narrowed(
        CODES,
        senders=("a@shop.example",),
        subject_contains=("code",),
        require_dmarc=True,
        deadline_s=60,
        resends=0,
    )

    assert less.policy.senders == ("a@shop.example",)
    assert less.policy.subject_contains == ("code",)
    assert (less.policy.require_dmarc, less.resends) == (True, 0)
    assert less.deadline_ms == NOON_MS + 60_000
    assert narrowed(LINKS, link_hosts=("shop.example/a",)).policy.link_hosts == ("shop.example/a",)
    assert narrowed(STATES, states=("paid",)).policy.states == ("paid",)
    assert narrowed(expectation(), code_format="digits:6").policy.code_format == "digits:6"


def test_words_of_the_subject_are_added() -> None:
    known = expectation(policy(subject_contains=("sign-in",)))

    words = narrowed(known, subject_contains=("code",)).policy.subject_contains

    assert words == ("sign-in", "code")


def test_what_asks_for_more_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Expectation, dict[str, Any]]] = [
        (CODES, {"senders": ("a@evil.example",)}),
        (CODES, {"senders": ()}),
        (CODES, {"code_format": "digits:4..8"}),
        (CODES, {"deadline_s": 121}),
        (CODES, {"resends": 3}),
        (LINKS, {"link_hosts": ("evil.example",)}),
        (LINKS, {"require_dmarc": False}),
        (STATES, {"states": ("paid", "refunded")}),
    ]
    for known, fields in cases:
        with subtests.test(str(fields)), pytest.raises(AccessError, match="wider"):
            narrowed(known, **fields)


def test_what_is_left_must_make_sense() -> None:
    with pytest.raises(ParseError):
        narrowed(LINKS, link_hosts=())


def test_what_was_said_about_age_stays() -> None:
    assert narrowed(expectation(policy(any_age=True)), code_format="digits:6").policy.any_age
    assert not narrowed(expectation(), code_format="digits:6").policy.any_age
