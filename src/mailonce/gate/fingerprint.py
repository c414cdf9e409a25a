"""The fingerprint of a request, and which of its top-level fields differ from another's."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NoReturn

# Beyond these a difference is still found, only its fields are not named.
FIELDS_MAX = 64
FIELD_CHARS_MAX = 100


def canonical(value: Any) -> bytes:
    """Write JSON so that equal values give equal bytes: sorted keys, compact, UTF-8.

    Raises: ValueError where there is no such text (infinities, lone surrogates).
    """
    text = json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
    )
    return text.encode()


def of_json(body: bytes) -> tuple[str, dict[str, str]]:
    """Hash what the JSON says, however it is written, and each top-level field of an object.

    What is no JSON is hashed as it is: whether that is a fault is for the app to say.
    """
    try:
        value = json.loads(body, parse_constant=_refuse)
        whole = canonical(value)
        fields = _fields(value)
    except (ValueError, RecursionError):
        return of_bytes(body), {}
    return sha256(whole).hexdigest(), fields


def of_bytes(body: bytes) -> str:
    """Hash the bytes as they came."""
    return sha256(body).hexdigest()


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Name the fields that only one has, or that are not equal; none where either has no names."""
    if not ours or not theirs:
        return ()
    names = sorted(ours.keys() | theirs.keys())
    return tuple(name for name in names if ours.get(name) != theirs.get(name))


def _fields(value: Any) -> dict[str, str]:
    if (
        not isinstance(value, dict)
        or len(value) > FIELDS_MAX
        or max(map(len, value), default=0) > FIELD_CHARS_MAX
    ):
        return {}
    # The name is part of the hash, so that equal values of two fields do not show.
    return {name: sha256(canonical([name, value[name]])).hexdigest()[:16] for name in value}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
