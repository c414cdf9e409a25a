"""Secrets with nothing in them: everybody knows them, so they are refused, and prove nothing."""

from functools import lru_cache
from string import whitespace

# By field of a source, and the setting that gives it.
_SETTINGS = {
    "secrets": "secret",
    "public_keys": "public_key",
    "basic": "basic",
    "tokens": "token",
    "headers": "header",
    "allow_ips": "allow_ips",
    "topic_arns": "topic_arns",
    "api_keys": "api_key",
}


@lru_cache(maxsize=1024)
def is_empty(secret: str | bytes) -> bool:
    """Say whether nothing in a secret can be seen.

    HMAC fills a key up with zeros (RFC 2104), so one of zeros alone is the empty one.
    """
    if isinstance(secret, bytes):
        return not secret.strip(b"\0" + whitespace.encode())
    return not any(one.isprintable() and not one.isspace() for one in secret)


def empty_setting_of(source: object) -> str | None:
    """Give the setting of a source that has an empty value, or None."""
    for name, setting in _SETTINGS.items():
        if any(is_empty_proof(name, value) for value in getattr(source, name)):
            return setting
    return None


def is_empty_proof(name: str, value: str) -> bool:
    """Say whether a value of a source's field `name` has nothing that only the sender knows."""
    if name in {"basic", "headers"}:
        value = value.partition(":")[2]
    return is_empty(value)
