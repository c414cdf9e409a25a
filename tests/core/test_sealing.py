"""Sealed secrets open in their own place, with a key that is known, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.signatures.sealing import NONCE_BYTES, Sealer

NONCE = bytes(range(NONCE_BYTES))


@given(secret=st.binary(), place=st.text(st.characters(exclude_categories=["Cs"])))
def test_what_was_sealed_opens_in_its_place(secret: bytes, place: str) -> None:
    sealer = Sealer(["key"])

    sealed = sealer.seal(secret, place=place, nonce=NONCE)

    assert sealer.try_open(sealed, place=place) == secret
    assert sealer.try_open(sealed, place=place + " ") is None


def test_a_secret_does_not_show_in_what_is_kept() -> None:
    sealed = Sealer(["key"]).seal(b"hunter2hunter2", place="w/sources/1", nonce=NONCE)

    assert b"hunter2" not in sealed


def test_a_new_key_in_front_seals_and_the_old_one_still_opens() -> None:
    old, both, new = Sealer(["old"]), Sealer(["new", "old"]), Sealer(["new"])
    before = old.seal(b"s", place="p", nonce=NONCE)

    after = both.seal(b"s", place="p", nonce=NONCE)

    assert both.try_open(before, place="p") == both.try_open(after, place="p") == b"s"
    assert new.try_open(after, place="p") == b"s"
    assert new.try_open(before, place="p") is None


def test_one_changed_bit_anywhere_is_noticed() -> None:
    sealer = Sealer(["key"])
    sealed = sealer.seal(b"secret", place="p", nonce=NONCE)

    for position in range(len(sealed)):
        spoilt = bytearray(sealed)
        spoilt[position] ^= 1
        assert sealer.try_open(bytes(spoilt), place="p") is None, position


@pytest.mark.parametrize("sealed", [b"", b"abcd", bytes(16)])
def test_what_is_too_short_to_be_sealed_does_not_open(sealed: bytes) -> None:
    assert Sealer(["key"]).try_open(sealed, place="p") is None
