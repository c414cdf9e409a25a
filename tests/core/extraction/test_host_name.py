"""Hosts are told apart: addresses, names of a network, look-alikes, domains."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction import host_name


@given(
    st.integers(0, 2**32 - 1).flatmap(
        lambda number: st.sampled_from(
            [str(number), hex(number), oct(number).replace("0o", "0"),
             ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0)),
             ".".join(hex(number >> shift & 255) for shift in (24, 16, 8, 0)),
             f"{number >> 24}.{number & 0xFFFFFF}",
             f"{number >> 24}.{number >> 16 & 255}.{number & 0xFFFF}"]
        )
    )
)  # fmt: skip
def test_whatever_the_system_takes_for_an_address_is_one(spelt: str) -> None:
    # What `inet_aton` understands is what a connection would go to.
    socket.inet_aton(spelt)

    assert host_name.is_ip_literal(spelt)


def test_domains(subtests: pytest.Subtests) -> None:
    cases = {
        "login.example.com": "example.com",
        "example.co.uk": "example.co.uk",
        "a.b.github.io": "b.github.io",
        "github.io": "",
        "co.uk": "",
        "com": "",
        "a.b.example": "b.example",
    }
    for host, domain in cases.items():
        with subtests.test(host):
            assert host_name.registrable_domain(host) == domain
            assert host_name.is_public_suffix(host) == (domain == "")


def test_names_of_a_network(subtests: pytest.Subtests) -> None:
    for host in ("localhost", "a.local", "a.internal", "x.home.arpa", "intranet", "a.test"):
        with subtests.test(host):
            assert host_name.is_internal_name(host)
    assert not host_name.is_internal_name("local.example.com")


def test_mixed_scripts() -> None:
    assert host_name.has_mixed_scripts("pаypal.com")
    assert not host_name.has_mixed_scripts("пример.com")
    assert not host_name.has_mixed_scripts("paypal-2.com")


def test_valid_names(subtests: pytest.Subtests) -> None:
    for host in ("a.example", "a-b.example", "1.example", "a" * 63 + ".example"):
        with subtests.test(host):
            assert host_name.is_valid_name(host)
    for host in ("", ".", "a..b", "-a.example", "a-.example", "a_b.example", "A.example",
                 "a" * 64 + ".example", ".".join(["abc"] * 70)):  # fmt: skip
        with subtests.test(host[:20]):
            assert not host_name.is_valid_name(host)
