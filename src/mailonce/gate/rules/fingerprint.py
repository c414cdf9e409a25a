"""The fingerprint of a request, and which of its top-level fields differ from another's."""

import json
from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from json.encoder import encode_basestring
from typing import Any, NoReturn

# Beyond these a difference is still found, only its fields are not named.
FIELDS_MAX = 64
FIELD_CHARS_MAX = 100
# Longer numbers are compared as they are written: counting out their value could cost anything.
NUMBER_CHARS_MAX = 400

_encoder = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
)


class _NotPlainError(ValueError):
    """The body says more than the values that a reader makes of it."""


def canonical(value: Any) -> bytes:
    """Write JSON so that equal values give equal bytes: sorted keys, compact, UTF-8.

    Raises: ValueError where there is no such text (infinities, lone surrogates).
    """
    return _encoder.encode(value).encode()


def of_json(body: bytes) -> tuple[str, dict[str, str]]:
    """Hash what the JSON says, however it is written, and each top-level field of an object.

    What is no JSON is hashed as it is: whether that is a fault is for the app to say. So is what
    two readers may take for different values: a number that a double cannot hold, a name twice.
    """
    try:
        value = _decoder.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
        if not isinstance(value, dict):
            return sha256(canonical(value)).hexdigest(), {}
        # Each field is written once, for its own hash and for the whole.
        pieces = {
            name: f"{_written(name)}:{_written(value[name])}".encode() for name in sorted(value)
        }
    except (ValueError, RecursionError):
        return of_bytes(body), {}
    whole = sha256(b"{" + b",".join(pieces.values()) + b"}").hexdigest()
    if len(pieces) > FIELDS_MAX or max(map(len, pieces), default=0) > FIELD_CHARS_MAX:
        return whole, {}
    # The name is part of the hash, so that equal values of two fields do not show.
    return whole, {name: sha256(piece).hexdigest()[:16] for name, piece in pieces.items()}


def _written(value: Any) -> str:
    """Write what `_encoder` writes; most values are texts or numbers, and need no encoder."""
    if type(value) is str:
        return encode_basestring(value)
    return repr(value) if type(value) is int else _encoder.encode(value)


def of_bytes(body: bytes) -> str:
    """Hash the bytes as they came."""
    return sha256(body).hexdigest()


def with_part(whole: str, fields: dict[str, str], name: str, value: str) -> str:
    """Let a part of the request beside its body belong to what is compared, under `name`."""
    fields[name] = sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return sha256(f"{whole}\x1f{name}\x1f{value}".encode("utf-8", "surrogateescape")).hexdigest()


def differing(ours: Mapping[str, str], theirs: Mapping[str, str]) -> tuple[str, ...]:
    """Name the fields that only one has, or that are not equal; none where either has no names."""
    if not ours or not theirs:
        return ()
    names = sorted(ours.keys() | theirs.keys())
    return tuple(name for name in names if ours.get(name) != theirs.get(name))


def _exact(text: str) -> float:
    """Read a number that a double holds as it is written; others have no value to compare."""
    value = float(text)
    if text == repr(value):
        return value
    if len(text) > NUMBER_CHARS_MAX or Decimal(text) != Decimal(repr(value)):
        raise _NotPlainError("a double cannot hold the number")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _NotPlainError("an object names a field twice")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


# Made once: `json.loads` with choices makes one for each request.
_decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_exact, object_pairs_hook=_once)
