"""Where a server is, and that no value of a header begins another one."""

from typing import Any

import pytest

from mailonce.client.place import place_of
from mailonce.client.requests import get, post
from mailonce.errors import ConfigError


def test_url_and_key_come_from_the_environment() -> None:
    environment = {"MAILONCE_URL": "https://mail.example.com/base/", "MAILONCE_KEY": "mok_1"}

    place = place_of(None, None, environment=environment)

    assert (place.host, place.port, place.tls is not None) == ("mail.example.com", 443, True)
    assert place.write(get("inboxes", "a@b", after=1)).startswith(
        b"GET /base/v1/inboxes/a%40b?after=1 HTTP/1.1\r\nHost: mail.example.com:443\r\n"
    )
    assert "mok_1" not in repr(place)


@pytest.mark.parametrize(
    "url", ["localhost:8100", "ftp://x", "http://", "http://x:y", "http://x?a"]
)
def test_a_url_that_is_none_is_said_to_be(url: str) -> None:
    with pytest.raises(ConfigError, match="write http://HOST:PORT"):
        place_of(url, None, environment={})


@pytest.mark.parametrize("path", ["/v1", "/docs/", "/openapi.json"])
def test_a_url_of_a_page_is_told_from_that_of_the_server(path: str) -> None:
    with pytest.raises(ConfigError, match=r"names /\S+ of the server; write 'http://x:81/base'"):
        place_of(f"http://x:81/base{path}", None, environment={})


def test_a_key_with_a_line_end_is_refused() -> None:
    place = place_of("http://[::1]:80", "a\r\nX: y", environment={})

    with pytest.raises(ConfigError):
        place.write(post("sends", key="k"))


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    place = place_of("http://[::1]:81", None, environment={})

    assert b"Host: [::1]:81\r\n" in place.write(get("x"))


@pytest.mark.parametrize(("url", "key"), [(8172, None), (None, 12), (b"http://x", None)])
def test_what_is_no_text_is_refused(url: Any, key: Any) -> None:
    with pytest.raises(ConfigError, match="must be a text such as"):
        place_of(url, key, environment={})
