"""Links are judged by how they are written and where they lead; the operator decides."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.link_guard import judge_link, judge_redirect
from mailonce.core.extraction.link_verdict import LinkDecision, LinkReason, LinkRule
from tests.core.extraction.vectors import load, rules_of

EXAMPLE = [LinkRule(host="example.com")]
# What an agent may see of a link.
GRAMMAR = re.compile(r"https?://[a-z0-9.\[\]:-]+/[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*")


def test_verdicts(subtests: pytest.Subtests) -> None:
    for vector in load("links", "guard", "link"):
        with subtests.test(vector["url"]):
            verdict = judge_link(vector["url"], rules_of(vector, "example.com"))

            assert (verdict.decision, verdict.reason) == (vector["decision"], vector["reason"])
            if "result" in vector:
                assert verdict.url == vector["result"]


def test_a_verdict_shows_its_parts() -> None:
    verdict = judge_link(
        "https://www.google.com/url?q=https://a.b.example.com/v%3Ft%3D1%23f", EXAMPLE
    )

    assert (verdict.scheme, verdict.host, verdict.port) == ("https", "a.b.example.com", 443)
    assert (verdict.path, verdict.query, verdict.fragment) == ("/v", "t=1", "f")
    assert verdict.domain == "example.com"
    assert verdict.wrappers == ("www.google.com",)


def test_redirects_are_judged_like_links(subtests: pytest.Subtests) -> None:
    cases = {
        "/welcome": ("allowed", "https://example.com/welcome"),
        "welcome": ("allowed", "https://example.com/a/welcome"),
        "?done=1": ("allowed", "https://example.com/a/b?done=1"),
        "https://www.example.com/": ("allowed", "https://www.example.com/"),
        "//www.example.com/x": ("allowed", "https://www.example.com/x"),
        "//evil.com/x": ("rejected", "https://evil.com/x"),
        "https://evil.com/": ("rejected", "https://evil.com/"),
        "http://example.com/": ("rejected", "http://example.com/"),
        "https://169.254.169.254/": ("rejected", "https://169.254.169.254/"),
        "https://bit.ly/x": ("review", "https://bit.ly/x"),
        "/a\\b": ("rejected", ""),
        "/\\evil.com": ("rejected", ""),
        "/a\r\nSet-Cookie: x": ("rejected", ""),
        "\thttps://evil.com": ("rejected", ""),
        "javascript:alert(1)": ("rejected", ""),
        "../../../x": ("allowed", "https://example.com/x"),
        "": ("allowed", "https://example.com/a/b?t=1"),
    }
    for location, (decision, url) in cases.items():
        with subtests.test(location):
            verdict = judge_redirect("https://example.com/a/b?t=1", location, EXAMPLE)

            assert (verdict.decision, verdict.url) == (decision, url)


def test_a_redirect_out_of_the_allowed_path_is_rejected() -> None:
    allow = [LinkRule(host="example.com", path_prefix="/auth/")]

    verdict = judge_redirect("https://example.com/auth/a", "/admin", allow)

    assert verdict.reason is LinkReason.PATH_NOT_ALLOWED


URLS = st.lists(
    st.sampled_from(
        ["https://", "http://", "https:", "//", "example.com", "evil.com", "@", ":", "443", "8443",
         "/", "\\", "..", "%2e", "%2f", "?", "&", "next=", "#", "[::1]", "127.0.0.1", "0x7f.1", ".",
         "xn--", "аpple.com", "www.google.com/url?q=", "urldefense.com/v3/__", "__;", "!", "*",
         "**A", "\t", " ", "bit.ly", "a.safelinks.protection.outlook.com/?url=",
         "mandrillapp.com/track/click/", "?p=", "e30", "ｅ", "①", "\u202e", "%00",
         "secure-web.cisco.com/"]
    )
    | st.text(max_size=6),
    max_size=12,
).map("".join)  # fmt: skip


@given(URLS)
def test_what_is_allowed_leads_to_the_allowed_host_and_nothing_raises(url: str) -> None:
    verdict = judge_link(url, EXAMPLE)

    assert verdict == judge_link(url, EXAMPLE)
    assert verdict.url == "" or GRAMMAR.fullmatch(verdict.url)
    if verdict.decision is LinkDecision.ALLOWED:
        assert verdict.domain == "example.com"
        assert verdict.url.startswith(f"https://{verdict.host}/")
        assert verdict.host == "example.com" or verdict.host.endswith(".example.com")
        # The same verdict comes out for what an agent is given.
        assert judge_link(verdict.url, EXAMPLE).decision is LinkDecision.ALLOWED


@given(URLS, URLS)
def test_redirects_never_raise(url: str, location: str) -> None:
    verdict = judge_redirect(url, location, EXAMPLE)

    if verdict.decision is LinkDecision.ALLOWED:
        assert verdict.domain == "example.com"


@given(st.text(string.ascii_lowercase + ".-", min_size=1, max_size=20))
def test_without_rules_nothing_is_allowed(host: str) -> None:
    assert judge_link(f"https://{host}/", []).decision is not LinkDecision.ALLOWED
