"""Hosts of links, as callers write them."""

import pytest

from mailonce.core.expectations.link_host import is_within, link_host_text, read_link_host

SPELLINGS = {
    "example.com": "example.com",
    "EXAMPLE.com.": "example.com",
    "https://example.com/verify": "example.com/verify",
    "bücher.example/a": "xn--bcher-kva.example/a",
    "http://127.0.0.1:8000": "http://127.0.0.1:8000",
    "example.com:443": "example.com",
    "http://[::1]:80/x": "http://[::1]/x",
}
WRONG = ["", "a b.com", "user@example.com", "example.com?x", "javascript:x", "example.com:0",
         "example.com:99999", "example.com/a/../b", "ex%61mple.com", "-bad.com"]  # fmt: skip


def test_a_host_has_one_spelling(subtests: pytest.Subtests) -> None:
    for text, wanted in SPELLINGS.items():
        with subtests.test(text):
            assert link_host_text(read_link_host(text)) == wanted
            assert read_link_host(wanted) == read_link_host(link_host_text(read_link_host(text)))


def test_what_is_no_host_is_refused(subtests: pytest.Subtests) -> None:
    for text in WRONG:
        with subtests.test(text), pytest.raises(ValueError, match="no host of links"):
            read_link_host(text)


def test_a_narrower_host_is_within_a_wider_one(subtests: pytest.Subtests) -> None:
    cases = {
        ("example.com/verify", "example.com"): True,
        ("login.example.com", "example.com"): True,
        ("example.com", "login.example.com"): False,
        ("evil-example.com", "example.com"): False,
        ("example.com", "example.com/verify"): False,
        ("example.com/verify-all", "example.com/verify"): False,
        ("example.com/verify/a", "example.com/verify"): True,
        ("a.login.example.com", "login.example.com"): False,
        ("http://example.com", "example.com"): False,
        ("example.com:8443", "example.com"): False,
    }
    for (narrow, wide), wanted in cases.items():
        with subtests.test(f"{narrow} in {wide}"):
            assert is_within(read_link_host(narrow), read_link_host(wide)) is wanted
