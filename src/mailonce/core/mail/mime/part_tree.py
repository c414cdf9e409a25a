"""Find the parts of a mail, however they stand in each other, without copying them.

Each multipart is searched once for its own boundary, within the part that it stands in; so an inner
multipart that never ends stops at its parent's boundary. All work is bounded by `DigestBudget`;
what goes beyond a limit stays one part that is not taken apart, so that no content falls through.
"""

from collections.abc import Iterator

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.mime.header_block import (
    NO_FIELDS,
    HeaderFields,
    find_header_end,
    read_header,
)
from mailonce.core.mail.mime.parameters import FieldValue, content_type_of, read_value
from mailonce.core.mail.mime.transfer_encoding import IDENTITY
from mailonce.core.mail.problem import MailProblem

BOUNDARY_BYTES_MAX = 200
PART_HEADER_BYTES_MAX = 64 << 10
_OPAQUE = "application/octet-stream"


class MailPart(Struct, frozen=True, kw_only=True, gc=False):
    """A part, by its place in the bytes of the mail; a multipart has children and no content."""

    raw: bytes
    fields: HeaderFields
    type: str
    parameters: dict[str, str]
    disposition: FieldValue
    transfer_encoding: str
    start: int
    end: int
    children: tuple["MailPart", ...] = ()

    @property
    def encoded(self) -> bytes:
        """Its content as it stands in the mail, with its transfer encoding."""
        return self.raw[self.start : self.end]

    def leaves(self) -> Iterator["MailPart"]:
        """Give the parts that have content, in order."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def read_part_tree(raw: bytes, budget: DigestBudget) -> MailPart:
    """Read a mail, or the one part that was wrapped in a signature."""
    header_end, body_start = find_header_end(raw, 0, len(raw))
    size = min(header_end, budget.limits.header_bytes_max)
    if size < header_end:
        budget.note(MailProblem.HEADER_TOO_LARGE)
        size = raw.rfind(b"\n", 0, size) + 1 or size
    fields, body_at = read_header(raw[:size], budget)
    if body_at is not None and size == header_end:
        body_start = body_at
    budget.take_part()
    span = (body_start, len(raw))
    return _read_part(raw, fields, span, budget, depth=0, default="text/plain")


def _read_part(
    raw: bytes,
    fields: HeaderFields,
    span: tuple[int, int],
    budget: DigestBudget,
    *,
    depth: int,
    default: str,
) -> MailPart:
    start, end = span
    value = read_value(fields.first("content-type") or "", budget)
    type_ = _type_of(value.word, default, budget)
    encoding = (fields.first("content-transfer-encoding") or "").partition(";")[0].strip().lower()
    children: tuple[MailPart, ...] = ()
    if type_.startswith("multipart/"):
        if encoding not in IDENTITY:
            budget.note(MailProblem.ENCODED_MULTIPART)
        parts = _read_children(raw, value, span, budget, depth=depth, kind=type_)
        children = parts or ()
        if not parts:
            type_ = _OPAQUE if parts is None else "text/plain"
    return MailPart(
        raw=raw,
        fields=fields,
        type=type_,
        parameters=value.parameters,
        disposition=read_value(fields.first("content-disposition") or "", budget),
        transfer_encoding=encoding,
        start=start,
        end=end,
        children=children,
    )


def _type_of(word: str, default: str, budget: DigestBudget) -> str:
    if not word:
        return default
    type_ = content_type_of(word)
    if type_ is not None:
        return type_
    budget.note(MailProblem.BAD_CONTENT_TYPE)
    # `text` alone is what some programs write.
    return {"text": "text/plain", "html": "text/html", "multipart": "multipart/mixed"}.get(
        word, default
    )


def _read_children(
    raw: bytes,
    value: FieldValue,
    span: tuple[int, int],
    budget: DigestBudget,
    *,
    depth: int,
    kind: str,
) -> tuple[MailPart, ...] | None:
    """Read the parts of a multipart; None where a limit forbids to take it apart."""
    if depth >= budget.limits.depth_max:
        budget.note(MailProblem.TOO_DEEP)
        return None
    if not budget.take_scan(span[1] - span[0]):
        return None
    boundary = value.parameters.get("boundary", "").rstrip().encode("utf-8", "surrogateescape")
    spans: list[tuple[int, int]] = []
    if 0 < len(boundary) <= BOUNDARY_BYTES_MAX:
        spans = _split(raw, boundary, span, budget)
    if not spans:
        budget.note(MailProblem.MISSING_BOUNDARY)
        likely = _likely_boundary(raw, span)
        if likely is not None and likely != boundary:
            spans = _split(raw, likely, span, budget)
    default = "message/rfc822" if kind == "multipart/digest" else "text/plain"
    return tuple(
        _read_child(raw, child, budget, depth=depth + 1, default=default) for child in spans
    )


def _read_child(
    raw: bytes, span: tuple[int, int], budget: DigestBudget, *, depth: int, default: str
) -> MailPart:
    start, end = span
    header_end, body_start = find_header_end(raw, start, end)
    size = budget.take_part_header(min(header_end - start, PART_HEADER_BYTES_MAX))
    if size < header_end - start:
        budget.note(MailProblem.HEADER_TOO_LARGE)
    fields = NO_FIELDS
    if size:
        fields, body_at = read_header(raw[start : start + size], budget)
        if body_at is not None:
            body_start = start + body_at
    return _read_part(raw, fields, (body_start, end), budget, depth=depth, default=default)


def _split(
    raw: bytes, boundary: bytes, span: tuple[int, int], budget: DigestBudget
) -> list[tuple[int, int]]:
    """Cut a multipart at its boundary; the last part takes the rest where a limit is reached."""
    start, end = span
    spans: list[tuple[int, int]] = []
    part_start = -1
    for line_start, next_line, is_last in _delimiters(raw, boundary, span, budget):
        if part_start >= 0:
            spans.append((part_start, max(part_start, _before_line(raw, line_start, start))))
        part_start = -1 if is_last else next_line
        if is_last or not budget.take_part():
            break
    else:
        if part_start >= 0:
            budget.note(MailProblem.UNTERMINATED_MULTIPART)
    if part_start >= 0:
        spans.append((part_start, end))
    return spans


def _delimiters(
    raw: bytes, boundary: bytes, span: tuple[int, int], budget: DigestBudget
) -> Iterator[tuple[int, int, bool]]:
    """Give the boundary's lines: where each starts, where the next line starts, whether it ends."""
    start, end = span
    mark = b"--" + boundary
    at = start if raw.startswith(mark, start, end) else _find_line(raw, mark, start, end)
    while at >= 0 and budget.take_delimiter():
        after = at + len(mark)
        line_end = raw.find(b"\n", after, end)
        next_line = end if line_end < 0 else line_end + 1
        rest = raw[after : min(next_line, after + BOUNDARY_BYTES_MAX)].strip()
        if not rest or rest == b"--":
            yield at, next_line, rest == b"--"
        at = _find_line(raw, mark, after - 1, end)


def _find_line(raw: bytes, beginning: bytes, start: int, end: int) -> int:
    """Find the next line with a beginning; -1 where there is none."""
    before = raw.find(b"\n" + beginning, start, end)
    return before if before < 0 else before + 1


def _before_line(raw: bytes, line_start: int, start: int) -> int:
    """Leave out the line end that belongs to the boundary, not to the content before it."""
    before = line_start - 1
    if before > start and raw[before - 1 : before] == b"\r":
        before -= 1
    return before


def _likely_boundary(raw: bytes, span: tuple[int, int]) -> bytes | None:
    """Guess a boundary that was not declared: the first line that begins with two dashes."""
    start, end = span
    for line in raw[start : min(end, start + 4_096)].split(b"\n", 40)[:40]:
        candidate = line.rstrip()
        if candidate.startswith(b"--") and candidate.strip(b"-"):
            return candidate[2:] if len(candidate) <= BOUNDARY_BYTES_MAX else None
    return None
