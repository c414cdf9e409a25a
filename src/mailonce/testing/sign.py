"""How providers write times, passwords and signatures."""

import hmac
from base64 import b64encode
from hashlib import sha256

from mailonce.core.moment import moment


def hmac_hex(secret: str, signed: bytes, algorithm: str = "sha256") -> str:
    return hmac.digest(secret.encode(), signed, algorithm).hex()


def hmac_base64(secret: bytes, signed: bytes, algorithm: str = "sha256") -> str:
    return b64encode(hmac.digest(secret, signed, algorithm)).decode()


def basic(user_and_password: str) -> str:
    """Write the value of an Authorization header."""
    return "Basic " + b64encode(user_and_password.encode()).decode()


def iso(seconds: int) -> str:
    """Write a time with milliseconds, in UTC."""
    return moment(seconds * 1000)


def number_of(text: str) -> int:
    """Give the number that a provider with numbers for ids would have; below 2^48."""
    return int.from_bytes(sha256(text.encode()).digest()[:6])
