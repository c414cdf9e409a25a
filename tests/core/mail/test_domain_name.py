"""A domain has one spelling, and two domains never share one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailonce.core.mail.domain_name import domain_in_ascii


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("Example.COM", "example.com"),
        (" example.com. ", "example.com"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("B\u00dcCHER.Example.", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        # Not strasse.de, which is somebody else's.
        ("stra\u00dfe.de", "xn--strae-oqa.de"),
        ("STRA\u1e9eE.de", "xn--strae-oqa.de"),
        ("\u03b2\u03cc\u03bb\u03bf\u03c2.com", "xn--nxasmm1c.com"),
        ("\uff45xample.com", "example.com"),
        ("example\u3002com", "example.com"),
    ],
)
def test_each_spelling_is_the_domain_that_dns_has(text: str, domain: str) -> None:
    assert domain_in_ascii(text) == domain


@pytest.mark.parametrize(
    "text",
    [
        "a\ufffdb.example",
        "\u00fc" * 64,
        "\u05d0a.\u06f0\u05d0",
        "0\r.",
        "a b.c",
        "\u00fc.a\x7f",
        "a\u00a0b",
    ],
)
def test_what_dns_cannot_have_is_none(text: str) -> None:
    assert domain_in_ascii(text) is None


@given(st.text(max_size=80))
@example("0\r.")
@example("0 .")
@example("a\u00a0.")
def test_writing_it_twice_changes_nothing(text: str) -> None:
    domain = domain_in_ascii(text)

    assert domain is None or domain_in_ascii(domain) == domain
