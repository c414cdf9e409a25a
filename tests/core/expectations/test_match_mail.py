"""Each matcher says whether a mail passes, and why; in words of ours alone."""

from typing import Any

import pytest

from mailonce.core.expectations.expectation import Expectation
from mailonce.core.expectations.match_mail import (
    CANDIDATES_KEPT_MAX,
    MailOutcome,
    MailVerdict,
    Matcher,
    match_mail,
)
from mailonce.core.moment import moment
from tests.core.expectations.cases import (
    LINK,
    MINUTE_MS,
    NOON_MS,
    STATE,
    expectation,
    message,
    policy,
)

CODE_TEXT = "Your verification code is 734120."


def judge(known: Expectation, *arguments: Any, **fields: Any) -> MailVerdict:
    received_ms = fields.pop("received_ms", NOON_MS + 1000)
    return match_mail(known, message(*arguments, **fields), received_ms=received_ms)


def test_a_mail_with_the_code_matches() -> None:
    verdict = judge(expectation(), CODE_TEXT)

    assert verdict.outcome is MailOutcome.MATCHED
    assert [one.value for one in verdict.candidates] == ["734120"]
    assert {one.matcher for one in verdict.matchers} == set(Matcher)


def test_each_matcher_has_its_reason(subtests: pytest.Subtests) -> None:
    named = expectation(policy(senders=("a@shop.example", "@bank.example")))
    words = expectation(policy(subject_contains=("SIGN-IN", "your")))
    dmarc = expectation(policy(require_dmarc=True))
    failed = {"dmarc": {"result": "fail", "domain": "shop.example"}}
    foreign = {"dmarc": {"result": "pass", "domain": "evil.example"}}
    passed = {"dmarc": {"result": "pass", "domain": "mail.shop.example"}}
    old = moment(NOON_MS - 3 * MINUTE_MS)
    cases: dict[str, tuple[Expectation, dict[str, Any], str, str]] = {
        "other sender": (named, {"sender": "b@shop.example"}, "unmatched", "other_sender"),
        "longer local": (named, {"sender": "ba@shop.example"}, "unmatched", "other_sender"),
        "subdomain": (named, {"sender": "x@a.bank.example"}, "unmatched", "other_sender"),
        "lookalike": (named, {"sender": "a@shop.examp1e"}, "unmatched", "other_sender"),
        "domain": (named, {"sender": "X@BANK.example"}, "matched", "found"),
        "case": (named, {"sender": "A@Shop.Example"}, "matched", "found"),
        "no sender": (named, {"from": None}, "unmatched", "no_sender"),
        "two": (
            named,
            {"problems": ["several_from"], "sender": "a@shop.example"},
            "unmatched",
            "no_sender",
        ),
        "words": (words, {}, "matched", "found"),
        "lacks words": (words, {"subject": "hello"}, "unmatched", "lacks_words"),
        "unknown DMARC": (dmarc, {}, "quarantined", "dmarc_unknown"),
        "failed DMARC": (dmarc, {"authentication": failed}, "quarantined", "dmarc_fail"),
        "foreign DMARC": (dmarc, {"authentication": foreign}, "quarantined", "dmarc_fail"),
        "passed DMARC": (dmarc, {"authentication": passed}, "matched", "found"),
        "late": (expectation(), {"received_ms": NOON_MS + 3 * MINUTE_MS}, "late", "late"),
        "stale": (expectation(), {"date": old}, "matched", "found"),
    }
    for name, (known, fields, outcome, reason) in cases.items():
        with subtests.test(name):
            verdict = judge(known, CODE_TEXT, **fields)

            assert (verdict.outcome, verdict.reason) == (outcome, reason)
            assert verdict.is_stale == (name == "stale")


def test_a_mail_without_a_code_does_not_match() -> None:
    verdict = judge(expectation(), "Your order 2026 for $ 1234 is on its way.")

    assert verdict.outcome is MailOutcome.UNMATCHED
    assert verdict.candidates == ()


def test_two_codes_are_ambiguous_and_both_are_kept() -> None:
    verdict = judge(expectation(), "Your code is 111222.\n\nYour code is 333444.")

    assert (verdict.outcome, verdict.reason) == ("ambiguous", "equally_good")
    assert {one.value for one in verdict.candidates} == {"111222", "333444"}


def test_no_more_candidates_are_kept_than_anybody_needs() -> None:
    many = "\n".join(f"Your verification code is {111_000 + n}." for n in range(40))

    assert len(judge(expectation(), many).candidates) == CANDIDATES_KEPT_MAX


def test_a_link_is_judged_by_the_hosts_that_were_named(subtests: pytest.Subtests) -> None:
    known = expectation(policy(LINK, link_hosts=("shop.example/verify",)))
    cases = {
        "https://shop.example/verify?token=abc": ("matched", "found"),
        "https://evil.example/verify?token=abc": ("quarantined", "host_not_allowed"),
        "https://shop.example/other?token=abc": ("quarantined", "path_not_allowed"),
        "https://shop.example/verify?next=https://evil.example": (
            "quarantined",
            "foreign_redirect",
        ),
    }
    for url, wanted in cases.items():
        with subtests.test(url):
            verdict = judge(known, f"Please verify your address: {url}")

            assert (verdict.outcome, verdict.reason) == wanted


def test_a_state_is_one_of_the_words_that_were_named() -> None:
    known = expectation(policy(STATE, states=("approved", "declined")))

    verdict = judge(known, "Your application was approved.")

    assert [one.value for one in verdict.candidates] == ["approved"]


def test_the_first_servers_time_counts_as_well() -> None:
    """An earlier attempt's mail that was held back has a fresh Date only where it was forged."""
    headers = [
        ["Received", "from a by us; Tue, 17 Nov 2026 12:00:01 +0000"],
        ["Received", "from b by a; Tue, 17 Nov 2026 11:50:00 +0000"],
    ]
    known = expectation(opened_ms=1_794_916_800_000)

    assert judge(known, CODE_TEXT, headers=headers).is_stale
    assert not judge(known, CODE_TEXT, headers=headers[:1]).is_stale


def test_where_age_does_not_count_no_mail_is_stale() -> None:
    known = expectation(policy(any_age=True))
    headers = [["Received", "from b by a; Mon, 16 Nov 2026 11:50:00 +0000"]]

    verdict = judge(known, CODE_TEXT, date=moment(NOON_MS - 1_000 * MINUTE_MS), headers=headers)

    assert (verdict.outcome, verdict.is_stale) == ("matched", False)
    assert [one.reason for one in verdict.matchers if one.matcher is Matcher.FRESHNESS] == [
        "not_demanded"
    ]


def test_a_link_is_where_it_leads_not_what_its_words_show(subtests: pytest.Subtests) -> None:
    """Of a mail in HTML alone, the text is ours: it has the words of a link, not where it leads."""
    known = expectation(policy(LINK, link_hosts=("example.com",), only_candidate=True))
    anchor = '<a href="https://example.com.evil.net/verify?t=1">https://example.com/verify</a>'
    shown = "https://example.com/verify"
    for before in ("", "Please verify your address: "):
        with subtests.test(before):
            fields = {"html": before + anchor, "text_origin": "html"}
            verdict = judge(known, before + shown, **fields)

            assert (verdict.outcome, verdict.reason) == ("quarantined", "host_not_allowed")


def test_a_mail_is_not_quarantined_because_of_the_link_that_is_allowed() -> None:
    known = expectation(policy(LINK, link_hosts=("example.com",), only_candidate=True))

    verdict = judge(known, "https://example.com/a\n\nVerify: https://evil.net/verify?t=1")

    assert (verdict.outcome, verdict.reason) == ("quarantined", "host_not_allowed")
    failed = [one.matcher for one in verdict.matchers if not one.passed]
    assert failed == [Matcher.CONTENT, Matcher.GUARD]
