"""The secrets of a route: how one is made, which are in force, how one is rotated out."""

from dataclasses import replace
from enum import StrEnum

from mailonce.core.deliveries.route import RouteSecret
from mailonce.core.deliveries.signing import new_private_key, new_secret, public_key_of

OVERLAP_S = 86_400
OVERLAP_S_MAX = 7 * 86_400
# Each one in force is a further signature in the header of every request.
IN_FORCE_MAX = 10


class Signing(StrEnum):
    """How a delivery is signed: with a shared secret, or with a key whose other half is public."""

    HMAC = "hmac"
    ED25519 = "ed25519"


def secret_for(signing: Signing, chance: bytes) -> str:
    return new_secret(chance) if signing is Signing.HMAC else new_private_key(chance)


def signing_of(secret: str) -> Signing:
    return Signing.HMAC if public_key_of(secret) is None else Signing.ED25519


def in_force(secrets: tuple[RouteSecret, ...], now_ms: int) -> tuple[RouteSecret, ...]:
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
