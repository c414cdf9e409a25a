"""Cut the header of a mail or a part into its fields.

Real headers are broken in a few usual ways, which are told apart here: a line that is no field
inside the header (it is skipped), a body that begins without a blank line, and bytes above 127.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem

# Lines inside a header that are no fields; with more of them it is no header.
BROKEN_LINES_MAX = 100

# RFC 5322 allows more in a name; but what has quotes or brackets in it is JSON or markup.
_NAME = r"([\w!#$%&'*+./^`|~-]{1,200})[ \t]*:"
_FIELD = re.compile(rf"{_NAME}(.*(?:\n[ \t].*)*)", re.ASCII)
_FIELD_LINE = re.compile(_NAME, re.ASCII)
_UNFOLDED = re.compile(r"\n[ \t]*")
# Fields that hardly ever begin a line of a body.
_KNOWN = frozenset(
    {"cc", "content-disposition", "content-transfer-encoding", "content-type", "date",
     "dkim-signature", "from", "in-reply-to", "list-id", "message-id", "mime-version", "received",
     "references", "reply-to", "return-path", "subject", "to"}
)  # fmt: skip


class HeaderFields(Struct, frozen=True, gc=False):
    """The fields of one header: names as they were written, values unfolded but not decoded.

    A byte that is not UTF-8 stands in a value as a lone surrogate (`surrogateescape`).
    """

    fields: tuple[tuple[str, str], ...] = ()
    by_name: dict[str, list[str]] = {}

    def first(self, name: str) -> str | None:
        """Give the value of the first field with a name in lower case."""
        values = self.by_name.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """Give the values of all fields with a name in lower case."""
        return self.by_name.get(name, [])


NO_FIELDS = HeaderFields()


def make_fields(fields: tuple[tuple[str, str], ...]) -> HeaderFields:
    """Index fields by their names."""
    by_name: dict[str, list[str]] = {}
    for name, value in fields:
        by_name.setdefault(name.lower(), []).append(value)
    return HeaderFields(fields, by_name)


def find_header_end(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Find where the header ends, and where the body begins behind the blank line."""
    if raw.startswith(b"\n", start, end):
        return start, start + 1
    if raw.startswith(b"\r\n", start, end):
        return start, start + 2
    crlf = raw.find(b"\n\r\n", start, end)
    bare = raw.find(b"\n\n", start, end if crlf < 0 else crlf)
    if bare >= 0:
        return bare + 1, bare + 2
    if crlf >= 0:
        return crlf + 1, crlf + 3
    return end, end


def read_header(block: bytes, budget: DigestBudget) -> tuple[HeaderFields, int | None]:
    """Read the fields of a header block, and say where a body begins in it without a blank line.

    The place is in bytes from the start of the block, None where all of it is header.
    """
    text = block.decode("utf-8", "surrogateescape")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    fields: list[tuple[str, str]] = []
    at = broken = 0
    if text.startswith(("From ", ">From ")):
        # The first line of a mailbox file.
        at = text.find("\n") + 1 or len(text)
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            line_end = text.find("\n", at) + 1 or len(text)
            broken += 1
            if broken > BROKEN_LINES_MAX or not _header_goes_on(text, line_end):
                budget.note(MailProblem.MISSING_BLANK_LINE)
                return make_fields(tuple(fields)), _bytes_before(block, text, at)
            budget.note(MailProblem.BROKEN_HEADER)
            at = line_end
            continue
        if len(fields) >= budget.limits.header_fields_max:
            budget.note(MailProblem.TOO_MANY_HEADERS)
            break
        value = match[2]
        if "\n" in value:
            value = _UNFOLDED.sub(" ", value)
        fields.append((match[1], value.strip(" \t")))
        at = match.end() + 1
    return make_fields(tuple(fields)), None


def _header_goes_on(text: str, start: int) -> bool:
    """Say whether a field that every mail has comes soon behind a line that is no field."""
    return any(name in _KNOWN for name in _names_after(text, start))


def _names_after(text: str, start: int) -> Iterator[str]:
    for line in text[start : start + 8_192].split("\n", 40)[:40]:
        if match := _FIELD_LINE.match(line):
            yield match[1].lower()


def _bytes_before(block: bytes, text: str, at: int) -> int:
    """Turn a place in the text, whose line ends are LF, into a place in the block."""
    lines = text.count("\n", 0, at)
    place = 0
    for _ in range(lines):
        place = block.index(b"\n", place) + 1
    return place
