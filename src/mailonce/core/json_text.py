"""Read and write JSON without trusting who wrote it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from math import isfinite
from typing import Any

import msgspec
import orjson

from mailonce.errors import ParseError

# No event is nested deeper than this; orjson stops at 1,024 by itself.
DEPTH_MAX = 200
# Bodies up to this size are read whole, even before the sender is verified.
SMALL_BYTES_MAX = 64 << 10
# What a person writes into a setting.
PLAIN_DEPTH_MAX = 32
_SURROGATE = re.compile("[\ud800-\udfff]")
# Half of a surrogate pair, escaped, unless its backslash is the end of another escape. The pattern
# begins with plain letters, which are quickly searched for.
_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
HALF_BYTES = 6
_WHOLE = rb"\ufffd"
# How many halves are repaired for a sender who is not verified yet.
HALVES_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One element of a body that could not be read, as it came."""

    position: int
    reason: str
    raw: bytes


def read(body: bytes) -> Any:
    """Read one JSON value; of duplicate keys the last counts.

    Raises: ParseError where the bytes are no JSON, or nested absurdly deep.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _read_leniently(body)
    # A level takes two bytes at least, so that most bodies need not be looked at.
    if len(body) > 2 * DEPTH_MAX and body.count(b"[") + body.count(b"{") > DEPTH_MAX:
        _refuse_depth(value)
    return value


def read_object(body: bytes, what: str, text: str | None = None) -> dict[str, Any]:
    """Read one JSON object, in which the field `text` is a text; an error says `what` it is not.

    Raises: ParseError where it is none.
    """
    value = read(body)
    if isinstance(value, dict) and (text is None or isinstance(value.get(text), str)):
        return value
    raise ParseError(f"{what} is a JSON object" + (f" with a text {text!r}" if text else ""))


class LargeFieldError(ParseError):
    """A field with a signature or token is larger than any real one."""


def read_fields(body: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    """Read some fields of a JSON object, for a sender who is not verified yet.

    Of a large body the other fields are passed over without being built: ten megabytes of `{}`
    would become 200 of objects, and take a second in which nothing else runs.
    Raises: ParseError where the bytes are no JSON object, LargeFieldError where such a field is
    large and no text.
    """
    if len(body) <= SMALL_BYTES_MAX:
        value = read(body)
        if not isinstance(value, dict):
            raise ParseError("the body is not a JSON object")
        return {name: value[name] for name in names if name in value}
    try:
        values = _decode_fields(body, names)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ParseError(f"the body is not a JSON object: {_first_words(error)}") from error
    fields: dict[str, Any] = {}
    for place, name in enumerate(names):
        text = bytes(getattr(values, f"field_{place}"))
        if text:
            if len(text) > SMALL_BYTES_MAX and not text.startswith(b'"'):
                raise LargeFieldError(f"the field {name!r} is too large")
            fields[name] = read(text)
    return fields


def _decode_fields(body: bytes, names: tuple[str, ...]) -> Any:
    decoder = _fields_decoder(names)
    try:
        return decoder.decode(body)
    except msgspec.DecodeError:
        # Half a surrogate pair somewhere in the body must not make a genuine sender fail.
        mended = _mended(body)
        if mended is None:
            raise
        values = decoder.decode(mended)
        # But nothing is replaced in the signed fields: parsing would read something else.
        if any(_WHOLE in bytes(getattr(values, name)) for name in values.__struct_fields__):
            raise
        return values


def _mended(body: bytes) -> bytes | None:
    """Replace lone surrogates; None where there are none, or too many."""
    pieces: list[bytes] = []
    copied = 0
    starts = [match.start() for match in islice(_HALF.finditer(body), HALVES_MAX + 1)]
    if len(starts) > HALVES_MAX:
        return None
    halves = [start for start in starts if _is_escape(body, start)]
    place = 0
    while place < len(halves):
        start = halves[place]
        follows = place + 1 < len(halves) and halves[place + 1] == start + HALF_BYTES
        if follows and not _is_low(body, start) and _is_low(body, start + HALF_BYTES):
            # A whole pair.
            place += 2
            continue
        pieces += (body[copied:start], _WHOLE)
        copied = start + HALF_BYTES
        place += 1
    return b"".join([*pieces, body[copied:]]) if pieces else None


def _is_escape(body: bytes, start: int) -> bool:
    """Say whether a backslash begins an escape, and is not itself the end of one."""
    looked = slashes = 0
    while slashes == looked < start:
        looked = min(start, 8 * looked or 64)
        before = body[start - looked : start]
        slashes = looked - len(before.rstrip(b"\\"))
    return slashes % 2 == 0


def _is_low(body: bytes, start: int) -> bool:
    return body[start + 3] in b"cdefCDEF"


@lru_cache(maxsize=64)
def _fields_decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    places = {f"field_{place}": name for place, name in enumerate(names)}
    fields = [(place, msgspec.Raw, msgspec.Raw()) for place in places]
    return msgspec.json.Decoder(msgspec.defstruct("Fields", fields, rename=places))


def read_elements(body: bytes) -> tuple[list[Any], list[Unreadable]]:
    """Read a JSON array (or one bare value) so that one bad element does not cost the others."""
    try:
        value = read(body)
    except ParseError:
        return _read_one_by_one(body)
    return (value if isinstance(value, list) else [value]), []


def read_objects(body: bytes) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    """Read an array of objects (or one bare object); an element that is none is set aside.

    Raises: ParseError where the body is neither an array nor an object.
    """
    if not body.lstrip().startswith((b"[", b"{")):
        raise ParseError("the body is neither a JSON array nor a JSON object")
    return objects_in(*read_elements(body))


def objects_in(
    values: list[Any], unreadable: Sequence[Unreadable] = ()
) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    """Pick the objects out of an array's readable elements; what is none is set aside as well."""
    if not unreadable and {*map(type, values)} == {dict}:
        return values, []
    # The places of the readable elements are those between the ones that could not be read.
    taken = {element.position for element in unreadable}
    places = (place for place in count() if place not in taken)
    objects: list[dict[str, Any]] = []
    aside = list(unreadable)
    for place, value in zip(places, values, strict=False):
        if isinstance(value, dict):
            objects.append(value)
        else:
            aside.append(Unreadable(place, "the element is not an object", canonical(value)))
    return objects, sorted(aside, key=lambda element: element.position)


def canonical(value: Any) -> bytes:
    """Write `value` so that equal values give equal bytes: sorted keys, no spaces."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Integers above 64 bits and lone surrogates, which only the lenient reader lets in.
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def check_plain(value: Any) -> None:
    """Check that every database and every JSON reader can take `value`, as Python's json read it.

    Raises: ParseError, one sentence that says what is in the way.
    """
    level = [value]
    for _ in range(PLAIN_DEPTH_MAX):
        for element in level:
            _check_scalar(element)
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in ((*parent, *parent.values()) if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise ParseError(f"the body is nested deeper than {PLAIN_DEPTH_MAX} levels; use fewer")


def _check_scalar(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise ParseError("the body has a NUL character in a text; leave it out")
        if not value.isascii() and _SURROGATE.search(value):
            raise ParseError("the body has half a surrogate pair in a text; leave it out")
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise ParseError("the body has an integer above 64 bits; write it as a text")
    elif isinstance(value, float) and not isfinite(value):
        raise ParseError("the body has NaN or an infinite number, which is no JSON; leave it out")


def _read_leniently(body: bytes) -> Any:
    try:
        value = json.loads(body.decode("utf-8", "surrogatepass"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the body is not JSON: {_first_words(error)}") from error
    _refuse_depth(value)
    return value


def _refuse_depth(value: Any) -> None:
    """Refuse what orjson reads but nothing after it could write without overflowing the stack."""
    try:
        # It gives up at 254 levels, and is ten times quicker than a walk.
        orjson.dumps(value)
    except TypeError:
        if _deeper_than(value, DEPTH_MAX):
            raise ParseError(f"the body is nested deeper than {DEPTH_MAX} levels") from None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def _first_words(error: BaseException) -> str:
    return str(error).split(":")[0][:80]


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True


# A string without an end runs to the end of the body, so that no quote is ever looked at twice.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.?)*(?:"|\Z)|[\[\]{},]', re.DOTALL)


def _read_one_by_one(body: bytes) -> tuple[list[Any], list[Unreadable]]:
    """Cut a top-level array at its commas by counting brackets, and read each piece alone.

    Raises: ParseError where the body is no array, or has no end.
    """
    start = len(body) - len(body.lstrip())
    if body[start : start + 1] != b"[":
        raise ParseError("the body is not JSON")
    pieces: list[bytes] = []
    depth, since, end = 0, start + 1, -1
    for token in _TOKENS.finditer(body, start):
        mark = token.group()
        if mark in b"[{":
            depth += 1
        elif mark in b"]}":
            depth -= 1
            if depth == 0:
                end = token.start()
                break
        elif mark == b"," and depth == 1:
            pieces.append(body[since : token.start()])
            since = token.end()
    if end < 0 or body[end + 1 :].strip():
        raise ParseError("the body is not JSON: its array has no end")
    pieces.append(body[since:end])
    values: list[Any] = []
    unreadable: list[Unreadable] = []
    for position, piece in enumerate(pieces):
        try:
            values.append(read(piece))
        except ParseError as error:
            unreadable.append(Unreadable(position, str(error), piece.strip()))
    return values, unreadable
