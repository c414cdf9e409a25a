"""One inbox has many spellings, and a spelling never leads to another inbox."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail.address import MailAddress, read_address, read_domain


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ann@example.com", "ann@example.com"),
        ("<Ann@Example.COM>", "ann@example.com"),
        ("ann@example.com.", "ann@example.com"),
        ('"ann"@example.com', "ann@example.com"),
        ('"a\\"nn"@example.com', 'a"nn@example.com'),
        ('"a@b"@example.com', "a@b@example.com"),
        ("ann+shop@example.com", "ann+shop@example.com"),
        ("jörg@bücher.example", "jörg@xn--bcher-kva.example"),
        ("ann@localhost", "ann@localhost"),
    ],
)
def test_an_address_has_one_spelling(text: str, address: str) -> None:
    assert str(read_address(text)) == address


@pytest.mark.parametrize(
    "text",
    ["", "ann", "@example.com", "ann@", "a nn@example.com", "ann@exa mple.com", "ann@-x.com",
     "ann@x..com", "a\x00@example.com", "ann@[127.0.0.1]", "x" * 65 + "@example.com",
     "ann@" + "x" * 64 + ".com", "ann@\udcff.com"],
)  # fmt: skip
def test_what_is_no_address_is_none(text: str) -> None:
    assert read_address(text) is None


def test_a_tag_is_what_stands_behind_the_first_plus() -> None:
    address = read_address("ann+a+b@example.com")

    assert address is not None
    assert (address.tag, str(address.untagged)) == ("a+b", "ann@example.com")
    assert MailAddress("+x", "example.com").untagged == MailAddress("+x", "example.com")
    assert MailAddress("ann", "example.com").tag is None


@given(st.text(max_size=80))
def test_reading_never_raises_and_settles(text: str) -> None:
    address = read_address(text)
    domain = read_domain(text)

    assert address is None or "@" in address.local or read_address(str(address)) == address
    assert domain is None or read_domain(domain) == domain
