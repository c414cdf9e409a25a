"""A domain that only looks like one that was named."""

import pytest

from mailonce.core.expectations.look_alike import look_alike

PAYPAL = ["service@paypal.com"]


@pytest.mark.parametrize(
    "domain",
    [
        "paypa1.com", "paypai.com", "paypal-secure.com", "paypal.com.evil.example", "pay-pal.com",
        "payypal.com", "paypal.co", "xn--pypal-4ve.com", "mail.paypal.net",
    ],
)  # fmt: skip
def test_a_domain_that_a_hasty_reader_takes_for_another_is_recognised(domain: str) -> None:
    assert look_alike(domain, PAYPAL) == "paypal.com"


@pytest.mark.parametrize(
    "domain", ["paypal.com", "mail.paypal.com", "ebay.com", "shop.example", "example.com", ""]
)
def test_a_domain_of_the_same_owner_or_of_somebody_else_is_none(domain: str) -> None:
    assert look_alike(domain, PAYPAL) is None


def test_letters_that_are_read_as_one_are_taken_for_it() -> None:
    assert look_alike("arnazon.com", ["@amazon.com"]) == "amazon.com"
    assert look_alike("bank.example", ["@amazon.com", "@bank.example.org"]) == "bank.example.org"
    assert look_alike("shop.com", []) is None
