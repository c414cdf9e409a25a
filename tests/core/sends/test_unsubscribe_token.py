"""The token of a link that unsubscribes: ours, or refused."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from mailonce.core.sends.unsubscribe_token import Unsubscription, read_token, token_of
from mailonce.core.signatures.sealing import Sealer
from mailonce.errors import VerifyError

SEALER = Sealer(["one"])
WANTED = Unsubscription("default", "ann@example.com", "news", bytes(16))


def test_a_token_says_whose_mail_is_meant_and_shows_nothing() -> None:
    token = token_of(SEALER, WANTED)

    assert read_token(SEALER, token) == WANTED
    assert token == token_of(SEALER, WANTED)
    assert b"ann" not in urlsafe_b64decode(token + "==")


def test_a_token_is_read_after_the_master_key_was_rotated() -> None:
    assert read_token(Sealer(["two", "one"]), token_of(SEALER, WANTED)) == WANTED


def test_a_forged_token_is_refused() -> None:
    token = token_of(SEALER, WANTED)
    raw = bytearray(urlsafe_b64decode(token + "=="))
    raw[-1] ^= 1
    sealed_elsewhere = SEALER.seal(b"\x94", place="default/senders/x", nonce=bytes(12))
    forged = [
        "", "x", "ä", "===", "x" * 3_000, token[:-4], urlsafe_b64encode(bytes(raw)).decode(),
        token_of(Sealer(["other"]), WANTED), urlsafe_b64encode(sealed_elsewhere).decode(),
    ]  # fmt: skip

    for one in forged:
        with pytest.raises(VerifyError, match="not one that we sent"):
            read_token(SEALER, one)
