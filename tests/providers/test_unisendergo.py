"""Unisender Go: the digest within the body, compressed bodies, and the probe."""

import gzip
import json
from hashlib import md5

import pytest
from msgspec.structs import replace

from mailonce.core.arrivals.provider import Probe, Verified
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from mailonce.providers.unisendergo import INFLATED_BYTES_MAX, PROVIDER
from tests.providers.cases import arrival_of, find, keys, parse, source_of
from tests.providers.signing import sign_unisendergo

SOURCE = source_of("unisendergo", secrets=("api-key-1",))
GZIP = {"Content-Encoding": "gzip"}


def signed(rest: bytes) -> bytes:
    auth = sign_unisendergo("api-key-1", b"{" + rest, "")
    return b'{"auth":"' + auth.encode() + b'",' + rest


BODY = signed(b'"events_by_user":[{"events":[{"event_name":"x"}]}]}')


class TestDigests:
    def test_the_bytes_count_as_they_came(self) -> None:
        template = b'{ "events_by_user": [ ],\r\n "auth" : "%s" }'
        digest = md5(template % b"api-key-1", usedforsecurity=False).hexdigest()
        body = template % digest.encode()
        rewritten = json.dumps(json.loads(body)).encode()

        assert PROVIDER.verify(arrival_of(body), SOURCE, {}) == Verified()
        assert PROVIDER.verify(arrival_of(rewritten), SOURCE, {}) == hmac_signature.WRONG

    def test_a_digest_that_stands_twice_is_refused(self) -> None:
        auth = json.loads(BODY)["auth"]
        twice = BODY.replace(b'"x"', b'"' + auth.encode() + b'"')

        assert PROVIDER.verify(arrival_of(twice), SOURCE, {}) == hmac_signature.WRONG

    @pytest.mark.parametrize("auth", [7, ["0" * 32], "0" * 31, "A" * 32, "0" * 32 + "\n"])
    def test_what_is_no_digest_is_refused(self, auth: object) -> None:
        body = json.dumps({"auth": auth, "events_by_user": []}).encode()

        assert PROVIDER.verify(arrival_of(body), SOURCE, {}) == hmac_signature.WRONG

    def test_an_escaped_digest_is_not_found_and_refused(self) -> None:
        auth: str = json.loads(BODY)["auth"]
        escaped = BODY.replace(auth.encode(), f"\\u{ord(auth[0]):04x}{auth[1:]}".encode())

        assert json.loads(escaped)["auth"] == auth
        assert PROVIDER.verify(arrival_of(escaped), SOURCE, {}) == hmac_signature.WRONG


class TestCompression:
    def test_a_compressed_body_is_verified_and_read_as_its_json(self) -> None:
        packed = arrival_of(gzip.compress(BODY), GZIP)

        assert PROVIDER.verify(packed, SOURCE, {}) == Verified()
        assert PROVIDER.parse(packed, SOURCE) == PROVIDER.parse(arrival_of(BODY), SOURCE)

    def test_a_header_that_a_proxy_left_standing_does_no_harm(self) -> None:
        assert PROVIDER.verify(arrival_of(BODY, GZIP), SOURCE, {}) == Verified()

    def test_a_compressed_copy_is_a_copy(self) -> None:
        body = find("unisendergo", "opened").body

        assert keys("unisendergo", body) == keys("unisendergo", gzip.compress(body), GZIP)

    @pytest.mark.parametrize(
        "packed",
        [
            gzip.compress(b" " * (INFLATED_BYTES_MAX + 1)),
            gzip.compress(BODY)[:-9],
            b"\x1f\x8b",
            b"\x1f\x8b\x08" + b"\xff" * 40,
        ],
        ids=["bomb", "cut", "empty", "noise"],
    )
    def test_what_does_not_end_within_the_bound_is_refused(self, packed: bytes) -> None:
        arrival = arrival_of(packed, GZIP)

        assert PROVIDER.verify(arrival, SOURCE, {}) == hmac_signature.MISSING
        with pytest.raises(ParseError):
            PROVIDER.parse(arrival, SOURCE)

    def test_gzip_that_no_header_announces_is_not_unpacked(self) -> None:
        with pytest.raises(ParseError):
            parse("unisendergo", gzip.compress(BODY))

    def test_the_header_is_kept_so_that_the_body_can_be_read_again(self) -> None:
        assert "content-encoding" in PROVIDER.reads_headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_activation_of_a_webhook_is_answered(method: str) -> None:
    arrival = replace(arrival_of(b""), method=method)

    assert PROVIDER.probe(arrival, SOURCE) == Probe()


def test_no_post_is_a_probe() -> None:
    assert PROVIDER.probe(arrival_of(b""), SOURCE) is None
    assert PROVIDER.probe(arrival_of(BODY), SOURCE) is None


def test_an_event_that_comes_again_in_another_batch_is_a_copy() -> None:
    [one] = keys("unisendergo", find("unisendergo", "opened").value)
    batch = find("unisendergo", "batch").value

    _, other = keys("unisendergo", {**batch, "auth": "f" * 32})

    assert one == other


def test_the_three_shapes_of_one_event_are_copies() -> None:
    names = ("delivered", "single_event", "single_event_flat")

    event_keys = [keys("unisendergo", find("unisendergo", name).value) for name in names]

    assert event_keys[0] == event_keys[1] == event_keys[2]


def test_an_element_that_is_no_event_costs_no_other() -> None:
    value = find("unisendergo", "batch").value
    value["events_by_user"][0]["events"].insert(1, 5)

    parsed = parse("unisendergo", value)

    assert len(parsed.events) == 2
    assert [(one.position, one.raw) for one in parsed.unreadable] == [(1, b"5")]


def test_the_digest_is_not_shown_with_the_event() -> None:
    [event] = parse("unisendergo", find("unisendergo", "single_event_flat").value).events

    assert "auth" not in event.raw
