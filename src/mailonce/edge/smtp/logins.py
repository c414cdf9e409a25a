"""AUTH with PLAIN and LOGIN (RFC 4954, RFC 4616): reads credentials, and compares them."""

import binascii
import hmac
from base64 import b64decode
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

# Compared where there is no such user, so that the time taken does not tell.
_NOBODY = sha256(b"nobody").digest()


class Credentials(NamedTuple):
    """A user and a password, as a client sent them."""

    user: str
    password: str


class Logins:
    """The users of the SMTP door."""

    def __init__(self, users: Mapping[str, str]) -> None:
        # Digests have one length: comparing them takes one time.
        self._digests = {user: _digest(password) for user, password in users.items()}

    def __bool__(self) -> bool:
        return bool(self._digests)

    def match(self, given: Credentials) -> bool:
        """Say whether there is such a user with that password, in a time that tells nothing."""
        known = self._digests.get(given.user)
        same = hmac.compare_digest(_digest(given.password), known or _NOBODY)
        return same and known is not None


def read_plain(response: bytes) -> Credentials | None:
    """Read the response of PLAIN; None where it is malformed or asks to act for another user."""
    text = read_base64(response)
    if text is None or text.count("\0") != 2:
        return None
    acts_for, user, password = text.split("\0")
    return Credentials(user, password) if acts_for in {"", user} else None


def read_base64(response: bytes) -> str | None:
    """Decode one response; None where it is no Base64 of UTF-8. `=` stands for an empty one."""
    if response == b"=":
        return ""
    try:
        return b64decode(response, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _digest(password: str) -> bytes:
    return sha256(password.encode("utf-8", "surrogatepass")).digest()
