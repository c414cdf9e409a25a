"""A child key is signed offline, and says no more than its parent may."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from mailonce.core.access import digest_of
from mailonce.core.expectations.child_key import (
    LIFE_S_MAX,
    PREFIX,
    ChildKey,
    is_in_force,
    is_signed,
    make_child_key,
    public_half,
    read_child_key,
)
from tests.core.expectations.cases import NOON_MS

SECRET = "mok_" + "5" * 48
EXPECTATION = "exp_" + "a" * 32


def test_a_child_key_names_its_parent_and_one_expectation() -> None:
    text = make_child_key(SECRET, EXPECTATION, expires_ms=NOON_MS + 1000, uses=2)

    signed = read_child_key(text)

    assert signed is not None
    assert signed.child.parent_digest == digest_of(SECRET)
    assert (signed.child.expectation, signed.child.uses) == (EXPECTATION, 2)
    assert is_signed(signed, public_half(SECRET))
    assert not is_signed(signed, public_half(SECRET + "x"))
    assert SECRET not in text


def test_a_child_key_that_was_changed_is_not_signed() -> None:
    text = make_child_key(SECRET, EXPECTATION, expires_ms=NOON_MS)
    raw = urlsafe_b64decode(text.removeprefix(PREFIX) + "==")
    changed = raw.replace(b'"uses":1', b'"uses":9')

    read = read_child_key(PREFIX + urlsafe_b64encode(changed).rstrip(b"=").decode())

    assert read is not None
    assert read.child.uses == 9
    assert not is_signed(read, public_half(SECRET))


def test_what_is_no_child_key_is_not_read() -> None:
    for text in ("", "mok_123", PREFIX, PREFIX + "ä", PREFIX + "!!", PREFIX + "A" * 2000):
        assert read_child_key(text) is None
    empty = urlsafe_b64encode(b"s" * 64 + b'{"parent": "zz"}').decode()
    assert read_child_key(PREFIX + empty) is None


def test_a_child_key_ends_and_has_limits() -> None:
    def lives(**fields: int) -> bool:
        given: dict[str, Any] = {"expires_ms": NOON_MS + 1000, **fields}
        child = ChildKey(parent="00", expectation=EXPECTATION, **given)
        return is_in_force(child, now_ms=NOON_MS)

    assert lives()
    assert not lives(expires_ms=NOON_MS)
    assert not lives(expires_ms=NOON_MS + LIFE_S_MAX * 1000 + 1)
    assert not lives(uses=0)
    assert not lives(uses=10_000)


def test_two_of_one_expectation_are_counted_apart() -> None:
    one = ChildKey(parent="00", expectation=EXPECTATION, expires_ms=1, nonce="a")
    other = ChildKey(parent="00", expectation=EXPECTATION, expires_ms=1, nonce="b")

    assert one.id != other.id
