"""Seal secrets at rest, bound to the row they stand in."""

from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

UNREADABLE = (
    "stored secrets were encrypted with another master key; add that one to `master_key` (where "
    "none was given, it is in the file master.key of the process that was started first)"
)
NONCE_BYTES = 12
ID_BYTES = 4


class Sealer:
    """Encrypts with the first master key, decrypts with any: rotation is adding one in front."""

    def __init__(self, master_keys: list[str]) -> None:
        assert master_keys, "a sealer needs a master key"
        ciphers = [(key_id(key), AESGCM(sha256(b"seal" + key.encode()).digest()))
                   for key in master_keys]  # fmt: skip
        self._first = ciphers[0]
        self._ciphers = dict(ciphers)

    @property
    def key_ids(self) -> list[str]:
        """The public ids of the master keys, the one that encrypts in front."""
        return [one.hex() for one in self._ciphers]

    @property
    def older_ids(self) -> list[bytes]:
        """The ids of the keys that only decrypt; they stand in front of what they sealed."""
        return [one for one in self._ciphers if one != self._first[0]]

    def seal(self, secret: bytes, *, place: str, nonce: bytes) -> bytes:
        """Encrypt; `place` names workspace, table and row: pasted elsewhere it does not open."""
        assert len(nonce) == NONCE_BYTES, "a nonce is twelve fresh random bytes"
        key_id, cipher = self._first
        return key_id + nonce + cipher.encrypt(nonce, secret, place.encode())

    def try_open(self, sealed: bytes, *, place: str) -> bytes | None:
        """Decrypt; None where no master key fits."""
        cipher = self._ciphers.get(sealed[:ID_BYTES])
        nonce = sealed[ID_BYTES : ID_BYTES + NONCE_BYTES]
        try:
            if cipher is not None:
                return cipher.decrypt(nonce, sealed[ID_BYTES + NONCE_BYTES :], place.encode())
        except InvalidTag:
            pass
        return None


def key_id(master_key: str) -> bytes:
    """Give what tells one master key from another; it stands in front of all that is sealed."""
    return sha256(b"id" + master_key.encode()).digest()[:ID_BYTES]
