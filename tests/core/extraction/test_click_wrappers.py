"""Wrappers are opened where their address says what is in them; nothing they hold can harm."""

from base64 import urlsafe_b64encode

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.click_wrappers import (
    WrappedLink,
    decode_base64,
    open_wrapper,
    parameters_of,
)
from mailonce.core.extraction.web_address import WebAddress, parse_web_address


def opened(url: str) -> WrappedLink | None:
    address = parse_web_address(url)
    assert isinstance(address, WebAddress)
    return open_wrapper(address)


def test_what_is_no_wrapper_is_left_alone() -> None:
    assert opened("https://example.com/url?q=https://a.example") is None
    assert opened("https://www.google.com/search?q=https://a.example") is None
    assert opened("https://www.google.com.evil.example/url?q=https://a.example") is None


def test_a_wrapper_without_its_target_is_opaque() -> None:
    assert opened("https://urldefense.com/v3/broken") == WrappedLink(None)
    assert opened("https://www.google.com/url?x=1") == WrappedLink(None)


def test_of_two_targets_the_first_counts() -> None:
    wrapped = opened("https://www.google.com/url?q=https://a.example&q=https://b.example")

    assert wrapped == WrappedLink("https://a.example")


@given(st.text(max_size=60))
def test_base64_of_either_alphabet_is_decoded(text: str) -> None:
    encoded = urlsafe_b64encode(text.encode()).decode()

    assert decode_base64(encoded) == text
    assert decode_base64(encoded.rstrip("=")) == text
    assert decode_base64(encoded.replace("-", "+").replace("_", "/")) == text


HOSTS = st.sampled_from(
    ["urldefense.com/v3/__https://a.example/{}__;{}!x", "mandrillapp.com/track/click/1?p={}{}",
     "secure-web.cisco.com/1/https{}{}", "click.pstmrk.it/3s/{}/{}", "www.bing.com/ck/a?u=a1{}{}",
     "x.protection.sophos.com/?u={}{}", "x.awstrack.me/L0/https:%2F%2F{}/{}",
     "click.convertkit-mail.com/{}{}", "urldefense.proofpoint.com/v2/url?u={}{}"]
)  # fmt: skip


@given(HOSTS, st.text(max_size=40), st.text(max_size=20))
def test_broken_wrappers_never_raise(form: str, first: str, second: str) -> None:
    address = parse_web_address("https://" + form.format(first, second))

    if isinstance(address, WebAddress):
        wrapped = open_wrapper(address)
        assert wrapped is None or wrapped.target is None or wrapped.target


def test_parameters_are_bounded() -> None:
    assert len(parameters_of("&".join(f"a{number}=1" for number in range(1_000)))) <= 100
