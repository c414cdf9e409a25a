"""Text in the charset that was named for it, or as near to it as can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.reading.charset import decoded


@pytest.mark.parametrize(
    ("raw", "charset", "text"),
    [
        ("Grüße".encode("iso-8859-1"), "iso-8859-1", "Grüße"),
        ("Grüße".encode("iso-8859-1"), "ISO-8859-1", "Grüße"),
        ("Привет".encode("koi8-r"), "KOI8-R", "Привет"),
        ("Привет".encode("windows-1251"), "windows-1251", "Привет"),
        ("こんにちは".encode("iso-2022-jp"), "iso-2022-jp", "こんにちは"),
        ("你好".encode("gb2312"), "GB2312", "你好"),
        ("안녕".encode("euc-kr"), "euc-kr", "안녕"),
        ("Grüße".encode(), None, "Grüße"),
        ("Grüße".encode(), "us-ascii", "Grüße"),
        ("Grüße".encode(), "no-such-charset", "Grüße"),
        # It says one thing and is the other.
        ("Привет".encode(), "iso-2022-jp", "Привет"),
        (b"\xff\xfe\xff", "utf-8", "\ufffd\ufffd\ufffd"),
        # No charsets of text, though Python has codecs of these names.
        (b"xn--80a", "punycode", "xn--80a"),
        (b"\\u0041", "unicode_escape", "\\u0041"),
        (b"eJw", "zlib", "eJw"),
        (b"abc", "rot13", "abc"),
        (b"abc", "../../x", "abc"),
    ],
)
def test_bytes_are_decoded_by_a_charset_of_text(raw: bytes, charset: str, text: str) -> None:
    assert decoded(raw, charset) == text


@given(st.binary(), st.none() | st.text() | st.sampled_from(["utf-7", "hz", "utf-16", "big5"]))
def test_nothing_raises(raw: bytes, charset: str | None) -> None:
    assert isinstance(decoded(raw, charset), str)
