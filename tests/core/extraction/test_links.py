"""The link that a mail was sent for is found, where it may be followed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction import links
from mailonce.core.extraction.extraction import Evidence, ExtractionOutcome, ExtractionRule
from mailonce.core.extraction.link_verdict import LinkDecision, LinkRule
from mailonce.core.extraction.links import extract_link
from mailonce.core.extraction.mail_texts import MailTexts
from tests.core.extraction.vectors import LINK_FILES, link_in, load, result_of

ALLOW = [LinkRule(host="app.example.com")]
# Links that we do not find; each is counted in docs/extraction.md.
KNOWN_FAULTS = {
    # What the link does stands behind it.
    ("fourth-links", "zh: 点击这里"): "",
    # "Yes, subscribe me to this list" is no word for confirming.
    ("fourth-links", "mailchimp tracking in front of a confirmation"): "",
}


@pytest.mark.parametrize("name", LINK_FILES)
def test_the_links_of_mails(name: str, subtests: pytest.Subtests) -> None:
    for vector in load("links", name):
        with subtests.test(vector["name"]):
            extraction = link_in(vector)

            expected = KNOWN_FAULTS.get((name, vector["name"]), vector["link"])
            assert result_of(extraction) == expected, extraction.candidates[:3]
            if extraction.winner is not None:
                assert extraction.winner.guard is not None
                assert extraction.winner.guard.decision == vector.get("verdict", "allowed")


def test_a_candidate_says_what_speaks_for_it_and_where_it_leads() -> None:
    mail = MailTexts(
        html='<p>Hi!</p><a href="https://app.example.com/verify?token=1">Verify</a> '
        '<a href="https://app.example.com/terms">Terms</a>'
    )

    first, second = extract_link(mail, ALLOW).candidates

    assert first.rule is ExtractionRule.ANCHOR
    assert first.speaks_for == (Evidence.ACTION_IN_TEXT, Evidence.ACTION_IN_ADDRESS)
    assert first.guard is not None
    assert first.guard.path == "/verify"
    assert second.speaks_against == (Evidence.ROUTINE_LINK,)


def test_rejected_links_are_shown_with_their_reason() -> None:
    mail = MailTexts(html='<a href="https://evil.example/verify">Verify</a>')

    extraction = extract_link(mail, ALLOW)

    assert extraction.outcome is ExtractionOutcome.NONE
    assert extraction.reason is Evidence.NOT_ALLOWED
    assert extraction.candidates[0].speaks_against == (Evidence.NOT_ALLOWED,)


def test_a_text_that_shows_another_host_speaks_against_a_link() -> None:
    mail = MailTexts(
        html='<a href="https://app.example.com/verify">https://bank.example.org/verify</a>'
    )

    candidate = extract_link(mail, ALLOW).candidates[0]

    assert Evidence.TEXT_SHOWS_OTHER_HOST in candidate.speaks_against


def test_links_beyond_the_limit_are_left_out_and_it_is_said() -> None:
    mail = MailTexts(text="\n".join(f"https://a{number}.example/" for number in range(1_000)))

    extraction = extract_link(mail, ALLOW)

    assert extraction.is_truncated
    assert len(extraction.candidates) <= links.LINKS_MAX


def test_the_list_unsubscribe_of_a_mail_is_no_candidate() -> None:
    # Headers are not handed over at all: there is no field for them.
    assert set(MailTexts.__slots__) == {"subject", "text", "html"}


PIECES = st.sampled_from(
    ['<a href="', '">', "</a>", "https://app.example.com/verify", "https://evil.example/", "Verify",
     "http://", "javascript:", "<script type='application/ld+json'>", "</script>", '{"@type":',
     '"ConfirmAction"', ',"url":', '"https://app.example.com/x"', "}", "[", "\n", "> ",
     "unsubscribe", "https://www.google.com/url?q=", "(", ").", "\u202e", "&amp;", "確認"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=25).map("".join)


@given(text=TEXTS, html=TEXTS)
def test_only_what_the_guard_does_not_reject_is_found_and_nothing_raises(
    text: str, html: str
) -> None:
    mail = MailTexts(text=text, html=html)

    extraction = extract_link(mail, ALLOW)

    assert extraction == extract_link(mail, ALLOW)
    if extraction.winner is not None:
        guard = extraction.winner.guard
        assert guard is not None
        assert guard.decision is not LinkDecision.REJECTED
        assert extraction.winner.value == guard.url
        if guard.decision is LinkDecision.ALLOWED:
            assert guard.host == "app.example.com"


LINK = "https://app.example.com/verify?t=1"
BARE = {
    "To verify, click {}, then go on": LINK,
    "Verify at {}.": LINK,
    "Verify ({}) now": LINK,
    "Verify [{}]": LINK,
    "Verify <{}>": LINK,
    "Verify <{}>, please": LINK,
    "Verify \u201c{}\u201d": LINK,
    "Verify *{}*": LINK,
    "Verify _{}_": LINK,
    "Verify: {}\u2026": LINK,
    "Verify {} \u2014 it ends soon": LINK,
    "Verify: {}!": LINK,
    "Verify | {}| today": LINK,
    "Verify: [{0}]({0})": LINK,
    "[Verify]({}) your address": LINK,
    "\u767b\u9332: {}\u3092\u958b\u304f": LINK,
    "\u767b\u9332: {}\uff08\u767b\u9332\uff09": LINK,
    # These belong to the address.
    "Verify: {}_": f"{LINK}_",
    "Verify: {}-=": f"{LINK}-=",
    "Verify: {}(a)": f"{LINK}(a)",
    "Verify: {}[a]": f"{LINK}[a]",
}


def test_a_link_in_plain_text_is_taken_exactly(subtests: pytest.Subtests) -> None:
    for text, link in BARE.items():
        with subtests.test(text):
            extraction = extract_link(MailTexts(text=text.format(LINK)), ALLOW)

            assert result_of(extraction) == link, extraction.candidates[:3]


FOOTERS = (
    "Unsubscribe: https://news.example/unsubscribe?u=1234567890abcdef1",
    "Follow us: https://www.facebook.com/shop",
    "https://www.example.org/",
    "You get this since you signed in. Unsubscribe here: https://news.example/u/1",
)


def test_a_foreign_link_of_the_footer_says_nothing_about_the_one_that_is_allowed(
    subtests: pytest.Subtests,
) -> None:
    link = "https://app.example.com/a/xYz12345"
    for footer in FOOTERS:
        with subtests.test(footer):
            mail = MailTexts(text=f"Hello, this is yours: {link}\n\n{footer}\n")

            extraction = extract_link(mail, ALLOW)
            only = extract_link(mail, ALLOW, takes_only=True)

            assert extraction.reason is Evidence.TOO_LITTLE_EVIDENCE
            assert result_of(only) == link


def test_a_foreign_link_that_would_be_taken_keeps_a_mail_back(subtests: pytest.Subtests) -> None:
    ours = '<p>Yours: <a href="https://app.example.com/a/xYz12345">here</a></p>'
    cases = {
        "its words": '<a href="https://evil.example/a">Verify your address</a>',
        "shown": '<a href="https://evil.example/a">https://app.example.com/verify</a>',
    }
    for name, theirs in cases.items():
        with subtests.test(name):
            for takes_only in (False, True):
                extraction = extract_link(
                    MailTexts(html=ours + theirs), ALLOW, takes_only=takes_only
                )

                assert extraction.reason is Evidence.NOT_ALLOWED


ONLY = {
    "Click https://app.example.com/magic?t=1": "https://app.example.com/magic?t=1",
    "please use this link:\n\nhttps://app.example.com/a/xYz12345": "https://app.example.com/a/xYz12345",
    "Welcome! https://app.example.com/verify/abc": "https://app.example.com/verify/abc",
    "Open https://app.example.com/s/abcdef in your browser.": "https://app.example.com/s/abcdef",
    "Tap: https://app.example.com/auth/callback?code=abc": "https://app.example.com/auth/callback?code=abc",
    # The same link twice, a link elsewhere, the front page and a footer leave one.
    "https://app.example.com/i/a https://app.example.com/i/a": "https://app.example.com/i/a",
    "https://app.example.com/i/a https://other.example/x": "https://app.example.com/i/a",
    "https://app.example.com/i/a https://app.example.com/": "https://app.example.com/i/a",
    "https://app.example.com/i/a https://app.example.com/privacy": "https://app.example.com/i/a",
    # Two, or none but those that every mail has, leave none.
    "https://app.example.com/i/a https://app.example.com/i/b": "",
    "https://app.example.com/unsubscribe?u=1": "",
    "https://app.example.com/": "",
    # The mail was sent for a link that leads elsewhere.
    "Verify: https://evil.example/v\n\nNews: https://app.example.com/news": "",
}
ONLY_HTML = {
    '<a href="https://app.example.com/verify/abc">Click here</a>': "https://app.example.com/verify/abc",
    '<a href="https://app.example.com/v/abc">Open the app</a>': "https://app.example.com/v/abc",
    '<a href="https://app.example.com/x"><img src="https://app.example.com/logo.png"></a>': "",
    '<a href="https://app.example.com/x">https://bank.example.org/x</a>': "",
    '<a href="https://app.example.com/x">Unsubscribe</a>': "",
}  # fmt: skip


def test_the_only_link_is_taken_by_those_who_ask_for_it(subtests: pytest.Subtests) -> None:
    mails = {MailTexts(text=text): url for text, url in ONLY.items()}
    mails |= {MailTexts(html=html): url for html, url in ONLY_HTML.items()}
    for mail, url in mails.items():
        with subtests.test(mail.text or mail.html):
            assert result_of(extract_link(mail, ALLOW, takes_only=True)) == url
            assert result_of(extract_link(mail, ALLOW)) == ""


def test_the_only_link_of_a_local_server_is_taken_too() -> None:
    allow = [LinkRule(host="localhost", scheme="http", port=8000)]
    mail = MailTexts(text="Welcome! http://localhost:8000/activate/abc")

    extraction = extract_link(mail, allow, takes_only=True)

    assert result_of(extraction) == "http://localhost:8000/activate/abc"
    assert extraction.winner is not None
    assert Evidence.ONLY_LINK in extraction.winner.speaks_for
