"""Read `multipart/form-data` without trusting who wrote it: parts as bytes, names as they came.

A form has one level of parts, so this looks for delimiters and never for structure within a part.
Every byte is looked at a fixed number of times, whatever the boundary; only the parts that a caller
asks for are copied. Not `email.parser`: parts within parts cost it quadratic time, and at last the
stack. Not a framework's form reader: those decode text as UTF-8, whatever its charset is, and lose
files whose names they do not like.
"""

import re
from collections.abc import Container, Iterator, Mapping
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from mailonce.errors import ParseError

PARTS_MAX = 1_000
# The head of one part; a name, a file name and a type take a few hundred bytes.
PART_HEAD_BYTES_MAX = 16 << 10
# RFC 2046 says 70 characters; some senders write more.
BOUNDARY_BYTES_MAX = 200
# How often text that only begins like a delimiter is looked at.
FALSE_DELIMITERS_MAX = 10_000
# In place of where a part begins: the delimiter was the last.
_LAST = -1

_DISPOSITION = re.compile(rb"(?i)(?:\A|\r\n)content-disposition[ \t]*+:[ \t]*+form-data[ \t]*+")
_TYPE = re.compile(rb"(?i)(?:\A|\r\n)content-type[ \t]*+:[ \t]*+([^\r\n]*+)")
# One parameter of a header, in quotes or not.
_PARAMETER = re.compile(
    rb"[ \t]*+;[ \t]*+([!#-'*+.0-9A-Z^_`a-z|~-]++)[ \t]*+=[ \t]*+"
    rb'(?:"((?:[^"\\\r\n]|\\[^\r\n])*+)"|([^;"\r\n]*+))'
)
_ESCAPE = re.compile(rb'\\(["\\])')
# A delimiter is a whole line, but for some spaces behind it.
_LINE_END = re.compile(rb"[ \t]{0,100}+\r\n")
_CLOSED = re.compile(rb"--[ \t]{0,100}+(?:\r|\n|\Z)")


class FormPart(Struct, frozen=True, gc=False):
    """One part of a form; `filename` is None where it is no file, '' where a file has no name."""

    name: str
    filename: str | None
    # As it was written, such as "text/plain; charset=utf-8"; '' where there is none.
    type: str
    content: bytes


def read_parts(
    headers: Mapping[str, str], body: bytes, *, only: Container[str] | None = None
) -> Iterator[FormPart]:
    """Give the parts in their order, repeated names included; those without a name are passed over.

    Where `only` names parts, nothing is made of the others.

    Raises: ParseError, also in the middle, where the body is no such form or has too many parts.
    """
    delimiters = _Delimiters(body, _boundary(headers))
    _, start = delimiters.first()
    for _ in range(PARTS_MAX):
        if start == _LAST:
            return
        end, following = delimiters.behind(start)
        yield from _part(body, start, end, only)
        start = following
    if start != _LAST:
        raise ParseError(f"the form has more than {PARTS_MAX} parts")


def header_parameters(line: bytes, at: int | None = None) -> dict[str, bytes]:
    """Read the parameters of a header, from `at` or its first semicolon; names are lower-case.

    Of repeated ones the first counts. What stands within another's quotes is text.
    """
    if at is None:
        at = line.find(b";") % (len(line) + 1)
    parameters: dict[str, bytes] = {}
    while (parameter := _PARAMETER.match(line, at)) is not None:
        name, quoted, bare = parameter.groups()
        value = bare.rstrip() if quoted is None else _ESCAPE.sub(rb"\1", quoted)
        parameters.setdefault(name.decode().lower(), value)
        at = parameter.end()
    return parameters


def file_name_of(parameters: Mapping[str, bytes]) -> str | None:
    """Give the name of a file, without looking at what it would mean as a path."""
    extended = parameters.get("filename*")
    if extended is not None:
        # RFC 5987: charset'language'escaped. The only charset that anybody writes there is UTF-8.
        return _text(unquote_to_bytes(extended.rpartition(b"'")[2]))
    plain = parameters.get("filename")
    return None if plain is None else _text(plain)


class _Delimiters:
    """Finds the lines between parts; what only begins like one is content, but not without end."""

    def __init__(self, body: bytes, boundary: bytes) -> None:
        self._body = body
        self._text = b"\r\n--" + boundary
        self._false_left = FALSE_DELIMITERS_MAX

    def first(self) -> tuple[int, int]:
        """Give where the first one stands, and where the part behind it begins."""
        if self._body.startswith(self._text[2:]):
            start = self._start_behind(len(self._text) - 2)
            if start is not None:
                return 0, start
        return self.behind(0)

    def behind(self, start: int) -> tuple[int, int]:
        """Give where the part that begins at `start` ends, and where the next one begins."""
        # The line break in front of a delimiter may be the one that ended the delimiter before it.
        at = self._body.find(self._text, max(start - 2, 0))
        while at >= 0 and self._false_left:
            following = self._start_behind(at + len(self._text))
            if following is not None:
                return max(at, start), following
            self._false_left -= 1
            at = self._body.find(self._text, at + len(self._text))
        raise ParseError("the form has no end")

    def _start_behind(self, at: int) -> int | None:
        """Say where a part begins behind a delimiter; None where the line goes on."""
        if _CLOSED.match(self._body, at):
            return _LAST
        line_end = _LINE_END.match(self._body, at)
        return None if line_end is None else line_end.end()


def _part(body: bytes, start: int, end: int, only: Container[str] | None) -> Iterator[FormPart]:
    # A part without any header begins with the empty line.
    is_bare = body.startswith(b"\r\n", start)
    head_bytes_max = min(end + 2 - start, PART_HEAD_BYTES_MAX)
    head_end = start if is_bare else body.find(b"\r\n\r\n", start, start + head_bytes_max)
    if head_end < 0:
        raise ParseError("a part of the form has no head, or too long a one")
    head = body[start:head_end]
    disposition = _DISPOSITION.search(head)
    parameters = {} if disposition is None else header_parameters(head, disposition.end())
    raw_name = parameters.get("name")
    if raw_name is None:
        return
    name = _text(raw_name)
    if only is not None and name not in only:
        return
    type_ = _TYPE.search(head)
    content_at = min(head_end + (2 if is_bare else 4), end)
    yield FormPart(
        name,
        file_name_of(parameters),
        "" if type_ is None else _text(type_[1]).strip(),
        body[content_at:end],
    )


def _boundary(headers: Mapping[str, str]) -> bytes:
    # Not email.message: a long header of semicolons and quotes takes it seconds.
    line = headers["content-type"].encode("latin-1", "replace")
    boundary = header_parameters(line).get("boundary", b"")
    if not 0 < len(boundary) <= BOUNDARY_BYTES_MAX:
        raise ParseError("the form names no boundary")
    return boundary


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
