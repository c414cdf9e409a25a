"""What is read for a sender who has proven nothing: few fields, in little time and memory."""

import contextlib
import json
import time
import tracemalloc
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailonce import providers
from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused
from mailonce.core.arrivals.source import Source
from mailonce.core.json_text import SMALL_BYTES_MAX, check_plain, read_fields
from mailonce.errors import ParseError

NOW_MS = 1_794_000_000_000
ARN = "arn:aws:sns:eu-west-1:123456789012:t"
LARGE: Mapping[str, bytes] = {
    "objects": b'{"a":[' + b"{}," * 1_000_000 + b"{}]}",
    "numbers": b'{"a":[' + b"0," * 1_500_000 + b"0]}",
    "in the field itself": b'{"Message":[' + b"{}," * 1_000_000 + b'{}],"signature":['
    + b"{}," * 1_000_000 + b'{}],"auth":[' + b"{}," * 1_000_000 + b"{}]}",
    "no end": b'{"a":[' + b"{}," * 1_000_000 + b"{}]",
    "deep": b'{"a":' + b"[" * 3_000_000,
    "half a pair": b'{"a":"\\ud800","b":[' + b"{}," * 1_000_000 + b"{}]}",
}  # fmt: skip


@pytest.mark.parametrize("provider", ["mailgun", "ses", "scaleway", "unisendergo", "mandrill"])
@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_a_large_unproven_body_is_not_built(provider: str, body: bytes) -> None:
    peak = refused_at(provider, {"content-type": "application/json"}, body)

    assert peak < 5 * len(body), "a tree of Python objects takes twenty times the text"


def refused_at(provider: str, headers: Mapping[str, str], body: bytes) -> int:
    """See that a body is refused; tell how many bytes of memory that took."""
    record = providers.find(provider)
    assert record is not None
    source = Source(
        id="src_x", workspace="default", name="x", provider=provider, account="x",
        secrets=("s",), topic_arns=(ARN,), options={"url": "https://x.test/"},
    )  # fmt: skip
    given = {**headers, "x-mandrill-signature": "x"}
    arrival = Arrival(method="POST", headers=given, body=body, now_ms=NOW_MS)

    tracemalloc.start()
    try:
        verdict = record.verify(arrival, source, {})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert isinstance(verdict, Refused)
    return peak


FORMS: Mapping[str, tuple[str, bytes]] = {
    "escapes": ("application/x-www-form-urlencoded", b"a=" + b"%41" * 250_000),
    "escapes in a signing field": (
        "application/x-www-form-urlencoded",
        b"token=" + b"%41" * 250_000,
    ),
    "parts": (
        "multipart/form-data; boundary=b",
        b'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n'
        + "\U0001f4e7".encode() * 190_000
        + b"\r\n--b--",
    ),
}


@pytest.mark.parametrize("provider", ["mailgun", "mandrill"])
@pytest.mark.parametrize(("type_", "body"), FORMS.values(), ids=FORMS)
def test_a_large_unproven_form_takes_little_memory(provider: str, type_: str, body: bytes) -> None:
    assert refused_at(provider, {"content-type": type_}, body) < 10 * len(body)


@settings(
    max_examples=2 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["auth", "Type"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=6,
    )
)
def test_large_and_small_bodies_are_read_alike(value: dict[str, object]) -> None:
    padded = json.dumps({**value, "padding": "x" * SMALL_BYTES_MAX}).encode()
    names = ("auth", "Type")

    assert read_fields(padded, names) == read_fields(json.dumps(value).encode(), names)


@pytest.mark.parametrize(
    "body",
    [b'{"a":%d}' % 2**64, b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":"\\u0000"}', b'{"a":NaN}',
     b'{"a":' + b"[" * 40 + b"]" * 40 + b"}"],
)  # fmt: skip
def test_what_no_database_could_hold_is_not_plain(body: bytes) -> None:
    with pytest.raises(ParseError):
        check_plain(json.loads(body))


def test_what_people_write_is_plain() -> None:
    check_plain({"a": [1, -(2**63), 1.5, True, None, "ü\U0001f4e7"], "b": {"c": [[[{}]]]}})


def test_a_field_that_is_named_twice_counts_as_it_does_elsewhere() -> None:
    body = b'{"auth":"one","auth":"two","padding":"' + b"x" * SMALL_BYTES_MAX + b'"}'

    assert read_fields(body, ("auth",))["auth"] == json_text.read(body)["auth"] == "two"


@pytest.mark.parametrize(
    "text",
    [
        r"\ud800",
        r"\uDC00x",
        r"\udc00\ud800",
        r"\ud83d\ude00\ud83d",
        r"\\\ud800",
        r"\\ud800 \ud800 \n",
    ],
)
def test_half_a_character_makes_no_stranger_of_a_large_sender(text: str) -> None:
    start = b'{"auth":"q\\ud83d\\ude00\\\\ud83d","subject":"' + text.encode() + b'","padding":"'
    body = start + b"x" * SMALL_BYTES_MAX + b'"}'

    assert read_fields(body, ("auth",))["auth"] == json_text.read(body)["auth"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"{}," * 3_000_000 + b"{}]",
        b'{"a":' + b"[" * 9_000_000,
        b'{"a":"' + rb"\ud800" * 1_500_000 + b'"}',
        b'{"a":"' + b"\\" * 9_000_000 + rb"\ud800" + b'"}',
        b'{"a":"' + (b"\\" * 450 + rb"\ud800") * 19_000 + b'"}',
    ],
    ids=["no end", "deep", "halves", "backslashes", "both"],
)
def test_a_large_body_that_cannot_be_read_is_not_looked_at_for_long(body: bytes) -> None:
    readable = b'{"a":[' + b"{}," * 3_000_000 + b"{}]}"

    assert cost(body) < 8 * cost(readable)


def cost(body: bytes) -> float:
    """Tell the processor time of reading; the least of a few tries, which others disturb."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        with contextlib.suppress(ParseError):
            read_fields(body, ("auth",))
        taken.append(time.process_time() - began)
    return min(taken)


def test_half_a_character_in_what_proves_the_sender_is_read_as_nothing_else() -> None:
    body = b'{"auth":"q\\ud800","padding":"' + b"x" * SMALL_BYTES_MAX + b'"}'

    with pytest.raises(ParseError):
        read_fields(body, ("auth",))
