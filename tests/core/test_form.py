"""Forms, as browsers and a few providers still post them."""

from unittest.mock import patch
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.reading import form
from mailonce.core.reading.multipart import FormPart
from mailonce.errors import ParseError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
URLENCODED = {"content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}
MULTIPART = {"content-type": 'multipart/form-data; boundary="x 1"'}


def _part(head: str, content: str) -> bytes:
    return f"--x 1\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n".encode()


def test_repeated_and_blank_fields_keep_their_places() -> None:
    fields = form.read(URLENCODED, b"a=1&b=&a=%C3%A9+x")

    assert fields == [("a", "1"), ("b", ""), ("a", "é x")]


def test_parts_are_fields_but_files_are_not() -> None:
    body = (
        _part('name="a"', "1\r\n--x\r\n2")
        + _part('name="file"; filename="name.txt"', "no")
        + _part('name="a"', "é")
        + b"--x 1--\r\n"
    )

    fields = form.read(MULTIPART, body)

    assert fields == [("a", "1\r\n--x\r\n2"), ("a", "é")]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (URLENCODED, b"a=1&" * (form.FIELDS_MAX + 1)),
        (MULTIPART, _part('name="a"', "1") * (form.FIELDS_MAX + 1) + b"--x 1--"),
        (MULTIPART, _part('name="a"', "it ends too early")),
        ({"content-type": "multipart/form-data"}, b""),
        ({"content-type": "application/json"}, b"{}"),
        ({}, b""),
    ],
)
def test_what_is_no_form_or_too_long_is_refused(headers: dict[str, str], body: bytes) -> None:
    with pytest.raises(ParseError):
        form.read(headers, body)


@given(
    st.lists(st.tuples(TEXT, TEXT)),
    st.integers(min_value=3, max_value=12),
)
def test_escapes_are_read_alike_wherever_a_long_value_is_cut(
    pairs: list[tuple[str, str]], cut: int
) -> None:
    body = urlencode(pairs).encode()

    with patch.object(form, "UNESCAPE_BYTES", cut):
        fields = form.read_urlencoded(body)

    assert fields == pairs == parse_qsl(body.decode(), keep_blank_values=True)


def test_fields_and_files_of_either_format_are_read_as_bytes() -> None:
    body = _part('name="a"', "1") + _part('name="f"; filename="é"', "2") + b"--x 1--\r\n"

    assert form.read_parts(MULTIPART, body) == [
        FormPart("a", None, "", b"1"),
        FormPart("f", "é", "", b"2"),
    ]
    assert form.read_parts(URLENCODED, b"a=%FF+1&a=2") == [
        FormPart("a", None, "", b"\xff 1"),
        FormPart("a", None, "", b"2"),
    ]
    with pytest.raises(ParseError):
        form.read_parts({}, b"a=1")


def test_large_fields_and_files_are_shown_by_their_size() -> None:
    large = b"x" * (form.SHOWN_BYTES_MAX + 1)
    parts = [
        FormPart("a", None, "", b"1"),
        FormPart("a", None, "", b"\xff"),
        FormPart("large", None, "", large),
        FormPart("f", "n.txt", "text/plain", b"23"),
    ]

    assert form.shown_fields(parts) == {
        "a": ["1", "\ufffd"],
        "large": {"bytes": len(large)},
        "f": {"filename": "n.txt", "type": "text/plain", "bytes": 2},
    }
