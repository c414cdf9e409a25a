"""Secrets that sign deliveries: how one is made, checked, and rotated out."""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import replace
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mailonce.core.route import RouteSecret

HMAC_PREFIX = "whsec_"
PRIVATE_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"
SEED_BYTES = 32
HMAC_BYTES_MIN = 24
HMAC_BYTES_MAX = 64
OVERLAP_S = 86_400
OVERLAP_S_MAX = 7 * 86_400
# Each one in force is a further signature in the header of every request.
IN_FORCE_MAX = 10


class Signing(StrEnum):
    """How a delivery is signed: with a shared secret, or with a key whose other half is public."""

    HMAC = "hmac"
    ED25519 = "ed25519"


def new_secret(signing: Signing, chance: bytes) -> str:
    """Make a secret of 32 bytes of chance."""
    assert len(chance) == SEED_BYTES, f"a secret takes {SEED_BYTES} bytes, got {len(chance)}"
    if signing is Signing.HMAC:
        return HMAC_PREFIX + b64encode(chance).decode()
    # Seed and public key, as libsodium and Svix keep them.
    public = Ed25519PrivateKey.from_private_bytes(chance).public_key().public_bytes_raw()
    return PRIVATE_PREFIX + b64encode(chance + public).decode()


def signing_of(secret: str) -> Signing:
    """Say how a secret signs."""
    return Signing.ED25519 if secret.startswith(PRIVATE_PREFIX) else Signing.HMAC


def public_key_of(secret: str) -> str | None:
    """Give the half that may be shown, or None where the whole is shared."""
    if signing_of(secret) is Signing.HMAC:
        return None
    key = Ed25519PrivateKey.from_private_bytes(secret_bytes(secret)[:SEED_BYTES])
    return PUBLIC_PREFIX + b64encode(key.public_key().public_bytes_raw()).decode()


def secret_bytes(secret: str) -> bytes:
    """Read the bytes behind the prefix; none where they are not base64."""
    _, _, text = secret.partition("_")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError):
        return b""


def fault_of(secret: str) -> str | None:
    """Say why a secret cannot sign, or None where it can."""
    size = len(secret_bytes(secret))
    if secret.startswith(PRIVATE_PREFIX):
        fits = size in {SEED_BYTES, 2 * SEED_BYTES}
    else:
        fits = secret.startswith(HMAC_PREFIX) and HMAC_BYTES_MIN <= size <= HMAC_BYTES_MAX
    if fits:
        return None
    return (
        f"`secret` must be {HMAC_PREFIX} and base64 of {HMAC_BYTES_MIN} to {HMAC_BYTES_MAX} bytes, "
        f"or an Ed25519 key as {PRIVATE_PREFIX}…; leave it out and one is made"
    )


def in_force(secrets: tuple[RouteSecret, ...], now_ms: int) -> tuple[RouteSecret, ...]:
    """List the secrets that sign now."""
    return tuple(one for one in secrets if one.until_ms is None or one.until_ms > now_ms)


def rotated(
    secrets: tuple[RouteSecret, ...], new: str, *, now_ms: int, overlap_s: int
) -> tuple[RouteSecret, ...]:
    """Put a new secret in front; those before it sign along until the overlap ends."""
    until_ms = now_ms + overlap_s * 1000
    older = (
        replace(one, until_ms=until_ms if one.until_ms is None else min(one.until_ms, until_ms))
        for one in in_force(secrets, now_ms)
    )
    return (RouteSecret(new), *in_force(tuple(older), now_ms)[: IN_FORCE_MAX - 1])
