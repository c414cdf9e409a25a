"""Read the two body formats of HTML forms without trusting who wrote them."""

import re
from collections.abc import Mapping
from email.message import Message
from urllib.parse import parse_qsl

from msgspec.structs import replace

from mailonce.core.arrival import PROVING_FIELDS, Arrival
from mailonce.errors import ParseError

FIELDS_MAX = 1_000

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"

_FIELD_NAME = re.compile(rb'[; \t]name="([^"\r\n]*)"', re.IGNORECASE)
_FILE_NAME = re.compile(rb"[; \t]filename\*?=", re.IGNORECASE)


def is_form(headers: Mapping[str, str]) -> bool:
    """Say whether the headers announce one of the two form formats."""
    return _media_type(headers) in {URLENCODED, MULTIPART}


def read(headers: Mapping[str, str], body: bytes) -> list[tuple[str, str]]:
    """Read the fields in their order, repeated ones included; files are left out.

    Raises: ParseError where the headers announce no form, or there are too many fields.
    """
    match _media_type(headers):
        case "application/x-www-form-urlencoded":
            return read_urlencoded(body)
        case "multipart/form-data":
            return _read_multipart(body, _boundary(headers))
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


def read_urlencoded(body: bytes) -> list[tuple[str, str]]:
    """Read the fields of a form that is URL-encoded whatever its headers say.

    Raises: ParseError where there are too many fields.
    """
    try:
        return parse_qsl(
            body.decode("utf-8", "replace"),
            keep_blank_values=True,
            errors="replace",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError as error:
        raise ParseError(f"the form has more than {FIELDS_MAX} fields") from error


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _read_multipart(body: bytes, boundary: bytes) -> list[tuple[str, str]]:
    # Not email.parser: parts within parts cost it quadratic time, and at last the stack, before
    # anybody has proven who they are. A form has one level of parts.
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary, FIELDS_MAX + 1)[1:]
    fields: list[tuple[str, str]] = []
    for part in parts:
        if part.startswith(b"--"):
            return fields
        head, _, content = part.partition(b"\r\n\r\n")
        name = _FIELD_NAME.search(head)
        if name is not None and _FILE_NAME.search(head) is None:
            fields.append((_text(name.group(1)), _text(content)))
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
