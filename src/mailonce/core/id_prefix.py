"""The beginning of an id, and the ids that begin so."""

import re
from dataclasses import dataclass

from mailonce.errors import ParseError

# Ids begin with their time: fewer digits would be those of a whole day.
DIGITS_MIN = 6
DIGITS = {"dlv": 64, "evt": 32, "dead": 32, "snd": 32, "exp": 32, "arr": 32}
_FORM = re.compile(r"(dlv|evt|dead|snd|exp|arr)_([0-9a-f]+)…?")


@dataclass(frozen=True, slots=True)
class IdPrefix:
    """A kind of id, and the first and the last one with the same beginning."""

    kind: str
    first: bytes
    last: bytes


def is_short(text: str) -> bool:
    """Say whether this is the beginning of an id that can be completed."""
    match = _FORM.fullmatch(text)
    return match is not None and len(match[2]) < DIGITS[match[1]]


def read_prefix(text: str) -> IdPrefix:
    """Read the beginning of an id.

    Raises: ParseError where it is none, or too short.
    """
    match = _FORM.fullmatch(text)
    if match is None or not DIGITS_MIN <= len(match[2]) <= DIGITS[match[1]]:
        raise ParseError(
            f"{text[:80]!r} is not the beginning of an id: give dlv_, evt_, dead_, snd_, exp_ "
            f"or arr_ and at least {DIGITS_MIN} of its digits"
        )
    kind, digits = match[1], match[2]
    return IdPrefix(
        kind,
        bytes.fromhex(digits.ljust(DIGITS[kind], "0")),
        bytes.fromhex(digits.ljust(DIGITS[kind], "f")),
    )
