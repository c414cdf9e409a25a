"""Every word that a verdict can say is said of some link in the vectors."""

from mailonce.core.extraction.link_guard import judge_link
from mailonce.core.extraction.link_verdict import LinkReason
from tests.core.extraction.vectors import load, rules_of


def test_every_reason_has_a_link() -> None:
    reasons = {vector["reason"] for vector in load("links", "guard", "link")}
    reasons.add(judge_link("https://example.com/" + "x" * 5_000, []).reason)

    assert reasons == set(LinkReason)


def test_a_rule_without_more_allows_every_path_by_https() -> None:
    (rule,) = rules_of({}, "example.com")

    assert (rule.path_prefix, rule.scheme, rule.port) == ("/", "https", None)
