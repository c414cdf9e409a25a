import re

import pytest
from dkim.canonicalization import Relaxed, Simple
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail.dkim_body import canonical_body
from tests.stopwatch import Stopwatch

BODIES = st.lists(
    st.sampled_from([b"\r\n", b" ", b"\t", b"a", b"b c", b"\r", b"  \t ", b"x \r\n"]), max_size=30
).map(b"".join)


@pytest.mark.parametrize(
    ("body", "simple", "relaxed"),
    [
        # The examples of RFC 6376 §3.4.5.
        (b" C \r\nD \t E\r\n\r\n\r\n", b" C \r\nD \t E\r\n", b" C\r\nD E\r\n"),
        (b"", b"\r\n", b""),
        (b"\r\n\r\n", b"\r\n", b""),
        (b"a", b"a\r\n", b"a\r\n"),
        (b"a\nb\n\n", b"a\r\nb\r\n", b"a\r\nb\r\n"),
        (b" \t\r\n", b" \t\r\n", b""),
        (b"a\r\r\n", b"a\r\r\n", b"a\r\r\n"),
        (b"a ", b"a \r\n", b"a\r\n"),
    ],
)
def test_examples(body: bytes, simple: bytes, relaxed: bytes) -> None:
    assert canonical_body(body, is_relaxed=False) == simple
    assert canonical_body(body, is_relaxed=True) == relaxed


@given(BODIES)
def test_it_is_what_the_library_makes(body: bytes) -> None:
    # The library keeps spaces at the very end, which the RFC removes.
    whole = re.sub(rb"[ \t]+\Z", b"", body)

    assert canonical_body(body, is_relaxed=False) == Simple.canonicalize_body(body)
    assert canonical_body(whole, is_relaxed=True) == Relaxed.canonicalize_body(whole)


@pytest.mark.parametrize(
    "piece", [b" ", b"\t", b" x", b"\r\n", b"\r", b"\n", b" \r\n", b"\t\tx\r\n", b"\r\r\n"]
)
def test_time_grows_with_the_size(piece: bytes) -> None:
    body = piece * (4_000_000 // len(piece))

    with Stopwatch() as watch:
        canonical_body(body + b"x", is_relaxed=True)
        canonical_body(b"x" + body, is_relaxed=False)

    assert watch.seconds < 2
