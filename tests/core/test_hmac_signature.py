"""Our quicker HMAC is the standard one."""

import hmac

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.signatures.hmac_signature import hmac_hex_matches, hmac_sha256


@given(st.binary(max_size=200), st.binary(max_size=500))
def test_it_equals_the_library(secret: bytes, signed: bytes) -> None:
    assert hmac_sha256(secret, signed) == hmac.digest(secret, signed, "sha256")
    # The prepared halves are copied, not used up.
    assert hmac_sha256(secret, signed) == hmac.digest(secret, signed, "sha256")


@given(st.text(max_size=70))
def test_a_signature_of_any_text_is_compared(signature: str) -> None:
    assert not hmac_hex_matches(b"secret", b"body", signature)
    assert hmac_hex_matches(b"secret", b"body", hmac.digest(b"secret", b"body", "sha256").hex())
