"""Sign deliveries as https://www.standardwebhooks.com specifies, with every secret in force."""

from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mailonce.core.deliveries.delivery import ROUTE_HEADER
from mailonce.core.deliveries.route import RouteSecret
from mailonce.core.empty_secret import is_empty
from mailonce.core.signatures.hmac_signature import hmac_sha256, unpadded
from mailonce.errors import ConfigError

HMAC_PREFIX = "whsec_"
PRIVATE_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"
SECRET_BYTES = 32
# Shorter ones can be guessed; longer ones belong to another scheme.
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 16, 128
SEED_BYTES = 32


def delivery_headers(
    key: str,
    body: bytes,
    secrets: Iterable[RouteSecret],
    *,
    route: str,
    attempt: int,
    redeliveries: int = 0,
    now_ms: int,
) -> dict[str, str]:
    """Give the headers of an attempt: key, signature, route and number."""
    headers = signature_headers(key, body, secrets, now_ms=now_ms)
    headers["content-type"] = "application/json"
    headers["x-idempotency-key"] = headers["idempotency-key"] = key
    headers["x-mailonce-attempt"] = str(attempt)
    if route:
        headers[ROUTE_HEADER] = route
    if redeliveries:
        headers["x-mailonce-redelivery"] = str(redeliveries)
    return headers


def signature_headers(
    id_: str, body: bytes, secrets: Iterable[RouteSecret], *, now_ms: int
) -> dict[str, str]:
    """Give the three headers; without a secret in force there is no signature to give."""
    timestamp = str(now_ms // 1000)
    content = f"{id_}.{timestamp}.".encode() + body
    signatures = [
        _sign(secret.value, content)
        for secret in secrets
        if secret.until_ms is None or secret.until_ms > now_ms
    ]
    headers = {"webhook-id": id_, "webhook-timestamp": timestamp}
    if signatures:
        headers["webhook-signature"] = " ".join(signatures)
    return headers


def new_secret(chance: bytes) -> str:
    """Write 32 random bytes as an HMAC secret."""
    assert len(chance) == SECRET_BYTES, f"a secret takes {SECRET_BYTES} random bytes"
    return HMAC_PREFIX + b64encode(chance).decode()


def new_private_key(chance: bytes) -> str:
    """Write 32 random bytes as an Ed25519 key; `public_key_of` gives what receivers need."""
    assert len(chance) == SEED_BYTES, f"a key takes {SEED_BYTES} random bytes"
    return PRIVATE_PREFIX + b64encode(chance).decode()


def public_key_of(secret: str) -> str | None:
    """Give the public half of a `whsk_` key, None for an HMAC secret."""
    if not secret.startswith(PRIVATE_PREFIX):
        return None
    raw = _private_key(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return PUBLIC_PREFIX + b64encode(raw).decode()


def check_secret(secret: str) -> None:
    """Check that a secret can sign.

    Raises: ConfigError, which does not quote it.
    """
    if secret.startswith(PRIVATE_PREFIX):
        _private_key(secret)
    else:
        _hmac_key(secret)


def _sign(secret: str, content: bytes) -> str:
    if secret.startswith(PRIVATE_PREFIX):
        return "v1a," + b64encode(_private_key(secret).sign(content)).decode()
    return "v1," + b64encode(hmac_sha256(_hmac_key(secret), content)).decode()


@lru_cache(maxsize=1024)
def _hmac_key(secret: str) -> bytes:
    key = unpadded(secret.removeprefix(HMAC_PREFIX))
    is_whole = SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX and not is_empty(key)
    if not is_whole or not secret.startswith(HMAC_PREFIX):
        raise ConfigError(
            f"a signing secret is whsec_ and the base64 of {SECRET_BYTES_MIN} to "
            f"{SECRET_BYTES_MAX} bytes, or a whsk_ key; make one with "
            "`echo whsec_$(openssl rand -base64 24)`"
        )
    return key


@lru_cache(maxsize=1024)
def _private_key(secret: str) -> Ed25519PrivateKey:
    raw = unpadded(secret.removeprefix(PRIVATE_PREFIX))
    # Some tools append the public half to the seed.
    if len(raw) not in {SEED_BYTES, 2 * SEED_BYTES}:
        raise ConfigError("a private key is whsk_ and the base64 of an Ed25519 seed of 32 bytes")
    return Ed25519PrivateKey.from_private_bytes(raw[:SEED_BYTES])
