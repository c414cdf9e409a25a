"""The one request: what follows an answer, and what a crash leaves."""

from mailonce.core.expectations.link_host import read_link_host
from mailonce.core.expectations.redemption import (
    HOPS_MAX,
    LastHop,
    NextHop,
    Redemption,
    RedemptionState,
    after_answer,
)
from tests.core.expectations.cases import MINUTE_MS, NOON_MS

RULES = [read_link_host("shop.example")]
URL = "https://shop.example/verify?token=1"


def test_an_answer_that_leads_nowhere_is_the_end() -> None:
    assert after_answer(URL, 200, None, hops=0, rules=RULES) == LastHop(RedemptionState.DONE)
    assert after_answer(URL, 404, "/x", hops=0, rules=RULES) == LastHop(RedemptionState.DONE)
    assert after_answer(URL, 302, None, hops=0, rules=RULES) == LastHop(RedemptionState.DONE)


def test_each_redirect_is_judged() -> None:
    onward = after_answer(URL, 302, "/welcome", hops=0, rules=RULES)
    assert onward == NextHop("https://shop.example/welcome", "shop.example")
    for location, reason in {
        "https://evil.example/": "host_not_allowed",
        "//evil.example/": "host_not_allowed",
        "http://shop.example/": "not_https",
        "https://169.254.169.254/": "ip_address",
        "https://localhost/": "internal_name",
    }.items():
        assert after_answer(URL, 302, location, hops=0, rules=RULES) == LastHop(
            RedemptionState.REFUSED, reason
        )
    last = after_answer(URL, 302, "/x", hops=HOPS_MAX, rules=RULES)
    assert last == LastHop(RedemptionState.REFUSED, "too_many_redirects")


def test_what_was_begun_and_left_no_word_is_unknown() -> None:
    begun = Redemption(state=RedemptionState.STARTED, started_ms=NOON_MS)

    assert begun.at(NOON_MS + 1000) is RedemptionState.STARTED
    assert begun.at(NOON_MS + MINUTE_MS) is RedemptionState.UNKNOWN
