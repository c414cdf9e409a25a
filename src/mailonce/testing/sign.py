"""How providers write times, passwords and signatures."""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from mailonce.core.moment import moment

SNS_SIGNED = ("Message", "MessageId", "Timestamp", "TopicArn", "Type")


def hmac_hex(secret: str, signed: bytes, algorithm: str = "sha256") -> str:
    """Sign with HMAC, as hex digits."""
    return hmac.digest(secret.encode(), signed, algorithm).hex()


def hmac_base64(secret: bytes, signed: bytes, algorithm: str = "sha256") -> str:
    """Sign with HMAC, as base64."""
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


def standard_headers(
    secret: bytes, id_: str, body: bytes, *, now_s: int, family: str = "webhook-"
) -> dict[str, str]:
    """Sign as Standard Webhooks and Svix do."""
    signature = hmac_base64(secret, f"{id_}.{now_s}.".encode() + body)
    return {
        "Content-Type": "application/json",
        f"{family}id": id_,
        f"{family}timestamp": str(now_s),
        f"{family}signature": f"v1,{signature}",
    }


def sns_signature(key: rsa.RSAPrivateKey, fields: Mapping[str, str]) -> str:
    """Sign the envelope of a notification as SNS does, version 2."""
    signed = "".join(f"{name}\n{fields[name]}\n" for name in SNS_SIGNED).encode()
    return b64encode(key.sign(signed, padding.PKCS1v15(), SHA256())).decode()
