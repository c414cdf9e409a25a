"""Pages: each continues where the last one ended, whatever was added meanwhile."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
from typing_extensions import TypedDict

from mailonce.errors import ParseError

T = TypeVar("T")
Row = TypeVar("Row")

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000
FOREIGN_CURSOR = "`cursor` is not one that this list gave; use `next` of a page, or leave it out"


class Page(TypedDict, Generic[T]):
    """One page of a list. `next` is the cursor of the next page, or null at the end."""

    data: list[T]
    next: str | None


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which page of a list: how many rows at most, and the `next` of the page before.

    Raises: ParseError where the limit is none, or more than a page holds.
    """

    limit: int = LIMIT_DEFAULT
    cursor: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= LIMIT_MAX:
            raise ParseError(f"`limit` is {self.limit}; ask for 1 to {LIMIT_MAX} at a time")

    def at_most(self, rows_max: int) -> "PageQuery":
        """Give the same page with no more rows than this."""
        return PageQuery(min(self.limit, rows_max), self.cursor)

    def position(self, make: Callable[..., T], *types: type) -> T | None:
        """Make a position of the cursor's parts, which have these types; None at the beginning.

        Raises: ParseError where this list gave no such cursor.
        """
        return None if self.cursor is None else make(*place_of(self.cursor, *types))

    def of(
        self,
        rows: Sequence[Row],
        show: Callable[[Row], T],
        end: Callable[[Row], tuple[int | str | bytes, ...]],
    ) -> Page[T]:
        """Show rows that were read with a limit of one more; `end` is the position of the last."""
        kept, last = cut(rows, self.limit)
        following = None if last is None else cursor_of(*end(last))
        return {"data": [show(row) for row in kept], "next": following}


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
        raise ParseError(FOREIGN_CURSOR) from error


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
