"""Limits on settings: each is kept in memory, and some are evaluated for every event."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.text import UNSTORABLE

NAME_CHARS_MAX = 100
# Names stand in URLs and commands.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
DEPTH_MAX = 10

HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def is_storable(text: str) -> bool:
    """Say whether every database holds a text: it has no NUL and no lone surrogate."""
    return "\0" not in text if text.isascii() else UNSTORABLE.search(text) is None


def of_text(name: str, text: str, chars_max: int) -> Iterator[str]:
    if len(text) > chars_max:
        yield f"`{name}` is longer than {chars_max} characters; shorten it"
    elif not is_storable(text):
        yield f"`{name}` has a character that cannot be kept (NUL or half a pair); take it out"


def of_lists(settings: object, limits: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Say which lists of texts have too many values, or too long ones, by the names in `limits`."""
    for name, (many_max, chars_max) in limits.items():
        values: Sequence[str] = getattr(settings, name)
        if len(values) > many_max:
            yield f"`{name}` has more than {many_max} values; take some away"
            continue
        for value in values:
            yield from of_text(name, value, chars_max)


def of_json(name: str, value: Any, bytes_max: int) -> Iterator[str]:
    if is_deeper(value, DEPTH_MAX):
        yield f"`{name}` is deeper than {DEPTH_MAX} levels; flatten it"
        return
    try:
        size = len(orjson.dumps(value))
    except TypeError:
        yield f"`{name}` has a value that JSON cannot hold, such as 2^64; correct it"
        return
    if size > bytes_max:
        yield f"`{name}` is larger than {bytes_max} bytes; shorten it"


def is_deeper(value: Any, levels: int) -> bool:
    """Say whether dicts and lists stand inside each other on more than so many levels."""
    return levels < 0 or any(is_deeper(one, levels - 1) for one in inner(value))


def inner(value: Any) -> Iterable[Any]:
    """Give the values that stand directly inside a dict or a list."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
