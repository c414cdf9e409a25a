"""Pages: each continues where the last one ended, whatever was added meanwhile."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import orjson
from typing_extensions import TypedDict

from mailonce.errors import ParseError

T = TypeVar("T")

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000


class Page(TypedDict, Generic[T]):
    """One page of a list. `next` is the cursor of the next page, or null at the end."""

    data: list[T]
    next: str | None


def check_limit(limit: int) -> int:
    """Check a page's limit.

    Raises: ParseError where it is none, or more than a page holds.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise ParseError(f"`limit` is {limit}; ask for 1 to {LIMIT_MAX} at a time")
    return limit


def cursor_of(*parts: int | str | bytes) -> str:
    """Write the position where a page ended, as an opaque text."""
    plain = [part.hex() if isinstance(part, bytes) else part for part in parts]
    return urlsafe_b64encode(orjson.dumps(plain)).decode().rstrip("=")


def place_of(cursor: str, *types: type) -> tuple[Any, ...]:
    """Read a cursor back into parts of these types.

    Raises: ParseError where it is not one that this list gave.
    """
    try:
        plain = orjson.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return tuple(_part(value, type_) for value, type_ in zip(plain, types, strict=True))
    except (ValueError, TypeError, OverflowError) as error:
        raise ParseError(
            "`cursor` is not one that this list gave; use `next` of a page, or leave it out"
        ) from error


def cut(rows: Sequence[T], limit: int) -> tuple[list[T], T | None]:
    """Cut rows that were read with a limit of one more; the last one kept, if more follow."""
    kept = list(rows[:limit])
    return kept, kept[-1] if len(rows) > limit else None


def _part(value: object, type_: type) -> object:
    if type_ is bytes and isinstance(value, str):
        return bytes.fromhex(value)
    # A day or a minute; a number that no column can hold was not given by us.
    if type_ is int and type(value) is int and abs(value) < 1 << 31:
        return value
    if type_ is str and isinstance(value, str) and "\0" not in value:
        return value
    raise TypeError
