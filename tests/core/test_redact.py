"""Secrets do not stay in what an endpoint answered."""

import pytest

from mailonce.core.redact import MARK, origin_of, redacted

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize(
    "text",
    [
        f"bad signature for {SECRET}",
        "you sent MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsk_c29tZSBvdGhlciBrZXkgb2YgdGhlaXJz",
        '{"authorization":"Bearer abc.def-ghi"}',
        "bearer\tabcdef",
        "our api key hunter2hunter2",
    ],
)
def test_a_secret_is_blanked_out(text: str) -> None:
    output = redacted(text.encode(), [SECRET, "hunter2hunter2"])

    assert MARK in output
    for secret in ("MfKQ9r8", "c29tZSBv", "abc", "hunter2"):
        assert secret.encode() not in output


def test_the_rest_stays_as_it_was() -> None:
    text = b"\xff\x00 the bearer of bad news: 422, see whsec docs"

    assert redacted(text, [SECRET, "", "422"]) == text.replace(b"bearer of", MARK)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com", "https://hooks.example.com"),
        ("https://hooks.example.com/", "https://hooks.example.com"),
        ("https://hooks.example.com/services/T0/B0/key", "https://hooks.example.com/…"),
        ("https://hooks.example.com:8443?key=hunter2", "https://hooks.example.com:8443/…"),
        ("https://user:hunter2@hooks.example.com/", "https://hooks.example.com/…"),
    ],
)
def test_a_url_is_cut_behind_its_host(url: str, shown: str) -> None:
    assert origin_of(url) == shown
