"""What may be expected, and what may not."""

from typing import Any

import pytest

from mailonce.core.argument_error import ArgumentAccessError
from mailonce.core.expectations.expectation_request import (
    ExpectationRequest,
    check_agent_hosts,
    check_agent_watermark,
    fingerprint_of_request,
    policy_of,
    request_key,
)
from mailonce.errors import AccessError, ParseError
from tests.core.expectations.cases import CODE, LINK, STATE

WRONG: dict[str, dict[str, Any]] = {
    "link without hosts": {"kind": LINK},
    "state without states": {"kind": STATE},
    "format of a link": {"kind": LINK, "link_hosts": ("example.com",), "code_format": "digits:6"},
    "hosts of a code": {"kind": CODE, "link_hosts": ("example.com",)},
    "no such format": {"kind": CODE, "code_format": "[0-9]+"},
    "two equal states": {"kind": STATE, "states": ("paid", "PAID")},
    "a state that is two lines": {"kind": STATE, "states": ("paid\nignore", "no")},
    "no sender": {"kind": CODE, "senders": ("shop",)},
    "too many senders": {"kind": CODE, "senders": tuple(f"a{n}@b.example" for n in range(21))},
    "empty word": {"kind": CODE, "subject_contains": (" ",)},
    "empty subject": {"kind": CODE, "subject": " "},
    "no deadline": {"kind": CODE, "deadline_s": 0},
    "endless": {"kind": CODE, "deadline_s": 1e9},
    "any number": {"kind": CODE, "only_candidate": True},
    "the only state": {"kind": STATE, "states": ("paid",), "only_candidate": True},
    "resends without end": {"kind": CODE, "resends": 1000},
}


def test_what_makes_no_sense_is_refused(subtests: pytest.Subtests) -> None:
    for name, fields in WRONG.items():
        with subtests.test(name), pytest.raises(ParseError, match="`"):
            policy_of(ExpectationRequest(**fields))


def test_a_policy_has_one_spelling() -> None:
    policy = policy_of(
        ExpectationRequest(
            kind=LINK,
            senders=("No-Reply@Shop.Example", "@BÜCHER.example", "no-reply@shop.example"),
            link_hosts=("https://Example.com/verify", "example.com/verify"),
        )
    )

    assert policy.senders == ("no-reply@shop.example", "@xn--bcher-kva.example")
    assert policy.link_hosts == ("example.com/verify",)


def test_an_agent_names_only_hosts_that_the_operator_allows() -> None:
    policy = policy_of(ExpectationRequest(kind=LINK, link_hosts=("shop.example/verify/a",)))

    check_agent_hosts(policy, ["shop.example/verify"])
    for allowed in ([], ["shop.example/other"], ["evil.example"]):
        with pytest.raises(AccessError, match="link_hosts"):
            check_agent_hosts(policy, allowed)


def test_who_named_a_host_that_is_not_allowed_reads_what_to_add(subtests: pytest.Subtests) -> None:
    # A scheme and a port are part of it: the host alone, once allowed, would not open these.
    for wanted in ("http://127.0.0.1:8000", "127.0.0.1:8000", "shop.example/verify"):
        with subtests.test(wanted):
            policy = policy_of(ExpectationRequest(kind=LINK, link_hosts=(wanted,)))

            with pytest.raises(ArgumentAccessError, match=f"'{wanted}'"):
                check_agent_hosts(policy, ["127.0.0.1", "shop.example/other"])
            check_agent_hosts(policy, [wanted])


def test_an_agent_asks_for_no_mail_that_came_before() -> None:
    check_agent_watermark(ExpectationRequest(kind=CODE))

    with pytest.raises(AccessError, match="after"):
        check_agent_watermark(ExpectationRequest(kind=CODE, after=0))


def test_a_request_is_known_by_its_key_and_what_it_asks_for() -> None:
    one = ExpectationRequest(kind=CODE)

    assert request_key("a", "key_1") == request_key("a", "key_1") != request_key("b", "key_1")
    assert request_key("a", "key_1") != request_key("a", "key_2")
    assert fingerprint_of_request(one, "inb_1") == fingerprint_of_request(one, "inb_1")
    assert fingerprint_of_request(one, "inb_1") != fingerprint_of_request(one, "inb_2")
    other = ExpectationRequest(kind=CODE, resends=2)
    assert fingerprint_of_request(one, "inb_1") != fingerprint_of_request(other, "inb_1")
    with pytest.raises(ParseError):
        request_key("with space", "key_1")


def test_a_request_of_an_older_version_has_the_same_fingerprint() -> None:
    """What it was before `only_candidate` was known."""
    request = ExpectationRequest(kind=LINK, link_hosts=("example.com",))

    assert fingerprint_of_request(request, "inb_1").hex() == "7e5ee2a948de4b352c777fe6f97ec5f6"
    others = ExpectationRequest(kind=LINK, link_hosts=("example.com",), only_candidate=True)
    assert fingerprint_of_request(others, "inb_1") != fingerprint_of_request(request, "inb_1")


def test_the_age_of_mail_counts_unless_the_request_says_which_mail_counts() -> None:
    assert not policy_of(ExpectationRequest(kind=CODE)).any_age
    assert policy_of(ExpectationRequest(kind=CODE, after=0)).any_age
