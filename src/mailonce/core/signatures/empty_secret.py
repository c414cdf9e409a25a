"""Secrets with nothing in them: everybody knows them, so they are refused, and prove nothing."""

from dataclasses import replace
from functools import lru_cache
from string import whitespace
from typing import Any

from mailonce.core.arrivals.source import Source

# By field, and the setting that gives it.
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
# What proves, each value alone; of headers, one value for each name.
_PROOFS = ("secrets", "public_keys", "basic", "tokens", "allow_ips", "topic_arns")


@lru_cache(maxsize=1024)
def is_empty(secret: str | bytes) -> bool:
    """Say whether nothing in a secret can be seen.

    HMAC fills a key up with zeros (RFC 2104), so one of zeros alone is the empty one.
    """
    if isinstance(secret, bytes):
        return not secret.strip(b"\0" + whitespace.encode())
    return not any(one.isprintable() and not one.isspace() for one in secret)


def fault_of(source: Source) -> str | None:
    """Say in one sentence which setting of a source has an empty value, or None."""
    for name, setting in _SETTINGS.items():
        values: tuple[str, ...] = getattr(source, name)
        # Asked for each arrival, and most are not set.
        if values and any(_is_empty(name, value) for value in values):
            return (
                f"`{setting}` has an empty value, which everybody knows; give the one that the "
                "provider has, or leave the setting out"
            )
    return None


def without_empty(source: Source) -> Source | None:
    """Take away what is empty among a source's proofs; None where one of them has nothing left.

    A proof that is left out is not demanded, so none may become one.
    """
    left: dict[str, Any] = {}
    for name in _PROOFS:
        values: tuple[str, ...] = getattr(source, name)
        kept = tuple(value for value in values if not _is_empty(name, value))
        if values and not kept:
            return None
        left[name] = kept
    headers = tuple(pair for pair in source.headers if not _is_empty("headers", pair))
    if _names(headers) != _names(source.headers):
        return None
    return replace(source, headers=headers, **left)


def _is_empty(name: str, value: str) -> bool:
    if name in {"basic", "headers"}:
        value = value.partition(":")[2]
    return is_empty(value)


def _names(headers: tuple[str, ...]) -> set[str]:
    return {pair.partition(":")[0].strip().lower() for pair in headers}
