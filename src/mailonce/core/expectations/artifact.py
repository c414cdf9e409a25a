"""An artifact: a value that counts for one subject, known by a keyed hash of it.

A second mail with the same value, while that is valid, is further evidence for the same artifact:
a resend never makes a code consumable twice. Long after, it is a value of its own.
"""

import hmac
from hashlib import sha256

from msgspec import Struct

from mailonce.core.extraction.extraction import ArtifactKind

# How long after its first mail a value is the same artifact.
VALID_MS = 24 * 3600 * 1000
DIGEST_BYTES = 32


class ArtifactKeys:
    """Hashes values with keys made of the master keys, so that nobody finds them by trying.

    The first key makes the hash that is kept. After a rotation the others still find older ones.
    """

    def __init__(self, master_keys: list[str]) -> None:
        assert master_keys, "artifacts are hashed with a master key"
        self._keys = [sha256(b"artifact" + key.encode()).digest() for key in master_keys]

    def digests(self, kind: ArtifactKind, value: str) -> tuple[bytes, ...]:
        """Give the hashes by which a value is known, the one to be kept first."""
        text = f"{kind}\0{value}".encode()
        return tuple(hmac.digest(key, text, "sha256") for key in self._keys)


class SealedArtifact(Struct, frozen=True, kw_only=True):
    """An artifact as it is kept; its value is sealed."""

    id: bytes
    workspace: str
    subject: str
    kind: ArtifactKind
    digest: bytes
    # Counts values that were equal, each after the one before was no longer valid.
    generation: int
    made_ms: int
    # None once the inbox that it came to was deleted.
    sealed: bytes | None

    def is_valid(self, now_ms: int) -> bool:
        return now_ms < self.made_ms + VALID_MS


def place_of(workspace: str, id_: bytes) -> str:
    """Name the place that a sealed value is bound to."""
    return f"{workspace}/artifacts/{id_.hex()}"
