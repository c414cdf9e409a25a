"""Child keys: an agent's key for one expectation, signed offline with another key's secret.

A child key names its parent, one expectation, when it ends and how many values it may consume. It
is signed with a key that is made of the parent's secret; the server keeps the public half, made
when the parent was, so that nobody who reads the database can make one. Making one needs no
request; each of its uses is counted in the store.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import sha256

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Struct

from mailonce.core.access import digest_of

PREFIX = "mck_"
USES_MAX = 1_000
LIFE_S_MAX = 7 * 86_400
CHARS_MAX = 1_000
_SIGNATURE_BYTES = 64


class ChildKey(Struct, frozen=True, kw_only=True):
    """What a child key says."""

    # The hash of the parent's secret, by which the server knows it.
    parent: str
    expectation: str
    expires_ms: int
    uses: int = 1
    # Tells two of the same expectation apart.
    nonce: str = ""

    @property
    def parent_digest(self) -> bytes:
        return bytes.fromhex(self.parent)

    @property
    def id(self) -> bytes:
        """Known by what it says: its uses are counted under this."""
        return sha256(b"child key\0" + msgspec.json.encode(self, order="sorted")).digest()[:16]


class SignedChildKey(Struct, frozen=True):
    """A child key that was read, but not verified yet."""

    child: ChildKey
    body: bytes
    signature: bytes


def public_half(secret: str) -> bytes:
    """Give what a server keeps of a key, so that it can verify its children."""
    return _private_half(secret).public_key().public_bytes_raw()


def make_child_key(
    secret: str, expectation: str, *, expires_ms: int, uses: int = 1, nonce: str = ""
) -> str:
    """Make a child key of an agent's or operator's key, without asking anybody."""
    child = ChildKey(
        parent=digest_of(secret).hex(),
        expectation=expectation,
        expires_ms=expires_ms,
        uses=uses,
        nonce=nonce,
    )
    body = msgspec.json.encode(child, order="sorted")
    signature = _private_half(secret).sign(body)
    return PREFIX + urlsafe_b64encode(signature + body).rstrip(b"=").decode()


def read_child_key(text: str) -> SignedChildKey | None:
    """Read a child key; None where it is none."""
    if not text.startswith(PREFIX) or len(text) > CHARS_MAX or not text.isascii():
        return None
    coded = text.removeprefix(PREFIX)
    try:
        raw = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
        body = raw[_SIGNATURE_BYTES:]
        child = msgspec.json.decode(body, type=ChildKey)
        bytes.fromhex(child.parent)
    except (ValueError, Base64Error, msgspec.DecodeError):
        return None
    return SignedChildKey(child, body, raw[:_SIGNATURE_BYTES])


def is_signed(signed: SignedChildKey, public: bytes) -> bool:
    """Say whether a child key was signed with the secret whose public half this is."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signed.signature, signed.body)
    except InvalidSignature:
        return False
    return True


def is_in_force(child: ChildKey, *, now_ms: int) -> bool:
    """Say whether a child key has not ended, and asks for no more than one may."""
    lives = now_ms < child.expires_ms <= now_ms + LIFE_S_MAX * 1000
    return lives and 1 <= child.uses <= USES_MAX


def _private_half(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        sha256(b"mailonce child keys\0" + secret.encode("utf-8", "replace")).digest()
    )
