"""Links are taken apart as browsers do, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.link_verdict import LinkReason
from mailonce.core.extraction.web_address import WebAddress, parse_web_address


def test_parts() -> None:
    assert parse_web_address("https://Example.com:8443/a/b?c=d#e") == WebAddress(
        scheme="https", host="example.com", port=8443, path="/a/b", query="c=d", fragment="e"
    )


def test_paths_are_resolved_as_browsers_do(subtests: pytest.Subtests) -> None:
    cases = {
        "": "/",
        "/": "/",
        "/a/./b": "/a/b",
        "/a/../b": "/b",
        "/../../b": "/b",
        "/a/b/..": "/a/",
        "/a/.": "/a/",
        "/a/%2e%2E/b": "/b",
        "/a/.%2e/b": "/b",
        "/a//b": "/a//b",
        "/a%2Fb": "/a%2Fb",
        "/...": "/...",
    }
    for path, resolved in cases.items():
        with subtests.test(path):
            address = parse_web_address(f"https://a.example{path}")

            assert isinstance(address, WebAddress)
            assert address.path == resolved


@given(st.text(max_size=40))
def test_what_is_parsed_is_written_so_that_it_parses_to_the_same(rest: str) -> None:
    address = parse_web_address(f"https://a.example/{rest}")

    if not isinstance(address, LinkReason):
        assert parse_web_address(address.url) == address
        assert address.url.isascii()


@given(st.text(max_size=40))
def test_nothing_raises(url: str) -> None:
    assert isinstance(parse_web_address(url), WebAddress | LinkReason)
