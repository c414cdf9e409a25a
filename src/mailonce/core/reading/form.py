"""Read the two body formats of HTML forms without trusting who wrote them."""

import re
from collections.abc import Container, Mapping
from email.message import Message
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from mailonce.core.arrivals.arrival import PROVING_FIELDS, Arrival
from mailonce.errors import ParseError

FIELDS_MAX = 1_000
# The size of the pieces that are unescaped at once.
UNESCAPE_BYTES = 64 << 10

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

_FIELD_NAME = re.compile(rb'[; \t]name="([^"\r\n]*)"', re.IGNORECASE)
_FILE_NAME = re.compile(rb"[; \t]filename\*?=", re.IGNORECASE)


def is_form(headers: Mapping[str, str]) -> bool:
    """Say whether the headers announce one of the two form formats."""
    return _media_type(headers) in {URLENCODED, MULTIPART}


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
            return _read_multipart(body, _boundary(headers), only)
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
    # Not urllib's parse_qsl: an object for each escape takes eighty times the memory of the body,
    # for a sender who has not proven anything yet.
    parts = body.split(b"&", FIELDS_MAX)
    if len(parts) > FIELDS_MAX:
        raise ParseError(f"the form has more than {FIELDS_MAX} fields")
    fields: list[tuple[str, str]] = []
    for part in filter(None, parts):
        raw_name, _, raw = part.partition(b"=")
        name = _unescaped(raw_name)
        if only is None or name in only:
            fields.append((name, _unescaped(raw)))
    return fields


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _unescaped(raw: bytes) -> str:
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
    return _text(b"".join(pieces))


def _read_multipart(
    body: bytes, boundary: bytes, only: Container[str] | None
) -> list[tuple[str, str]]:
    # Not email.parser: parts within parts cost it quadratic time, and at last the stack, before
    # anybody has proven who they are. A form has one level of parts.
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary, FIELDS_MAX + 1)[1:]
    fields: list[tuple[str, str]] = []
    for part in parts:
        if part.startswith(b"--"):
            return fields
        head, _, content = part.partition(b"\r\n\r\n")
        match = _FIELD_NAME.search(head)
        name = None if match is None else _text(match[1])
        is_wanted = name is not None and (only is None or name in only)
        if name is not None and is_wanted and _FILE_NAME.search(head) is None:
            fields.append((name, _text(content)))
    raise ParseError(f"the form has no end, or more than {FIELDS_MAX} parts")


def _boundary(headers: Mapping[str, str]) -> bytes:
    message = Message()
    message["content-type"] = headers["content-type"]
    boundary = message.get_boundary()
    if not boundary or len(boundary) > 200:
        raise ParseError("the form names no boundary")
    return boundary.encode("utf-8", "replace")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
