"""Read the two body formats of HTML forms without trusting who wrote them."""

from collections.abc import Container, Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from mailonce.core.arrivals.arrival import PROVING_FIELDS, Arrival
from mailonce.core.reading import multipart
from mailonce.core.reading.multipart import FormPart
from mailonce.errors import ParseError

FIELDS_MAX = 1_000
# Of a field that is shown to people.
SHOWN_BYTES_MAX = 64 << 10
# The size of the pieces that are unescaped at once.
UNESCAPE_BYTES = 64 << 10

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"


def is_form(headers: Mapping[str, str]) -> bool:
    """Say whether the headers announce one of the two form formats."""
    return _media_type(headers) in {URLENCODED, MULTIPART}


def is_multipart(headers: Mapping[str, str]) -> bool:
    """Say whether the headers announce a form in parts, which may have files."""
    return _media_type(headers) == MULTIPART


def read_parts(headers: Mapping[str, str], body: bytes) -> list[FormPart]:
    """Read the fields and files of either format as bytes.

    Raises: ParseError where the headers announce no form, or there are too many fields.
    """
    match _media_type(headers):
        case "application/x-www-form-urlencoded":
            return [FormPart(name, None, "", raw) for name, raw in _pairs(body, None)]
        case "multipart/form-data":
            return list(multipart.read_parts(headers, body))
        case _:
            raise ParseError("the content type is not that of a form")


def shown_fields(parts: Iterable[FormPart]) -> dict[str, Any]:
    """Show the fields of a form as an object: repeated ones as lists, large ones by their size."""
    by_name: dict[str, list[Any]] = {}
    for part in parts:
        size: dict[str, Any] = {"bytes": len(part.content)}
        if part.filename is not None:
            value: Any = {"filename": part.filename, "type": part.type, **size}
        else:
            value = _text(part.content) if len(part.content) <= SHOWN_BYTES_MAX else size
        by_name.setdefault(part.name, []).append(value)
    return {name: some if len(some) > 1 else some[0] for name, some in by_name.items()}


def read(
    headers: Mapping[str, str], body: bytes, *, only: Container[str] | None = None
) -> list[tuple[str, str]]:
    """Read the fields in their order, repeated ones included; files are left out.

    Where `only` names fields, nothing is made of the others.

    Raises: ParseError where the headers announce no form, or there are too many fields.
    """
    match _media_type(headers):
        case "application/x-www-form-urlencoded":
            return read_urlencoded(body, only=only)
        case "multipart/form-data":
            parts = multipart.read_parts(headers, body, only=only)
            return [(part.name, _text(part.content)) for part in parts if part.filename is None]
        case _:
            raise ParseError("the content type is not that of a form")


def with_query(arrival: Arrival) -> Arrival:
    """Put the fields of the query into a form body, before those that are there already.

    Bodies are kept and can be read again, queries are not; the query's token stays out of it.
    """
    parts = [one for one in arrival.query.split("&") if one.partition("=")[0] not in PROVING_FIELDS]
    fields = "&".join(filter(None, parts)).encode("utf-8", "replace")
    if not fields or (arrival.body and _media_type(arrival.headers) != URLENCODED):
        return arrival
    return replace(
        arrival,
        method="POST",
        headers={**arrival.headers, "content-type": URLENCODED},
        body=fields + b"&" + arrival.body if arrival.body else fields,
        query="",
    )


def read_urlencoded(body: bytes, *, only: Container[str] | None = None) -> list[tuple[str, str]]:
    """Read the fields of a form that is URL-encoded whatever its headers say.

    Raises: ParseError where there are too many fields.
    """
    return [(name, _text(raw)) for name, raw in _pairs(body, only)]


def _pairs(body: bytes, only: Container[str] | None) -> list[tuple[str, bytes]]:
    # Not urllib's parse_qsl: an object for each escape takes eighty times the memory of the body,
    # for a sender who has not proven anything yet.
    parts = body.split(b"&", FIELDS_MAX)
    if len(parts) > FIELDS_MAX:
        raise ParseError(f"the form has more than {FIELDS_MAX} fields")
    pairs: list[tuple[str, bytes]] = []
    for part in filter(None, parts):
        raw_name, _, raw = part.partition(b"=")
        name = _text(_unescaped(raw_name))
        if only is None or name in only:
            pairs.append((name, _unescaped(raw)))
    return pairs


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _unescaped(raw: bytes) -> bytes:
    raw = raw.replace(b"+", b" ")
    pieces: list[bytes] = []
    start = 0
    while start < len(raw):
        end = start + UNESCAPE_BYTES
        if end < len(raw):
            # Do not cut an escape in two.
            cut = raw.rfind(b"%", end - 2, end)
            end = cut if cut >= 0 else end
        pieces.append(unquote_to_bytes(raw[start:end]))
        start = end
    return b"".join(pieces)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
