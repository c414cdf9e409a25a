"""Cut the quoted history and the signature off a reply, so that what its sender wrote remains.

Quoted lines (`>`) fall away wherever they stand, so answers below and between them stay. A line
that begins a quotation ("On …, Ann wrote:") falls with the quoted lines below it; where the lines
below are not marked, as Outlook, Yahoo and HTML leave them, all from there on is history.
"""

from collections.abc import Sequence

from msgspec import Struct

from mailonce.core.mail.quotation_phrases import (
    ATTRIBUTION_END,
    ATTRIBUTION_START,
    COLONS,
    DEVICE_SIGNATURE,
    FORWARDED,
    HEADER_LINE,
    ORIGINAL_MESSAGE,
)

LINES_MAX = 20_000
LINE_CHARS_MAX = 1_000
# Lines that end like the beginning of a quotation; a real mail has few.
ATTRIBUTIONS_MAX = 200
ATTRIBUTION_LINES_MAX = 4
HEADER_LINES_MAX = 7
# Within so many characters, the label of an old header has ended.
LABEL_CHARS_MAX = 20
UNDERLINE_CHARS_MIN = 20
SIGNATURE_LINES_MAX = 30
_COLON, _WIDE_COLON = COLONS


def reply_of(text: str) -> str:
    """Give what the sender of a reply wrote."""
    lines = text.split("\n", LINES_MAX)
    rest = lines[LINES_MAX:]
    lines = lines[:LINES_MAX]
    history = _find_history(lines)
    if history.start < len(lines):
        rest = []
    dropped = _quoted_lines(lines, history)
    reply = [line for number, line in enumerate(lines[: history.start]) if number not in dropped]
    return "\n".join(_without_signature(reply) + rest).strip("\n").rstrip()


def quoted_line_numbers(lines: Sequence[str]) -> set[int]:
    """Number the lines that a reply quotes, marked or not, with those that introduce them."""
    lines = lines[:LINES_MAX]
    history = _find_history(lines)
    return _quoted_lines(lines, history) | set(range(history.start, len(lines)))


class _History(Struct, frozen=True, gc=False):
    """From which line on all is history that is not marked, and whether a mail was forwarded."""

    start: int
    is_forwarded: bool = False


def _find_history(lines: Sequence[str]) -> _History:
    attributions = 0
    for number, line in enumerate(lines):
        bare = line[:LINE_CHARS_MAX].strip()
        if not _may_introduce(bare):
            continue
        if FORWARDED.match(bare):
            # The forwarded mail is what this one says, with all that is in it.
            return _History(len(lines), is_forwarded=True)
        if ORIGINAL_MESSAGE.match(bare) or _is_old_header(lines, number):
            return _History(number)
        if _is_underline(bare) and _is_old_header(lines, _next_line(lines, number)):
            return _History(number)
        if bare.endswith(COLONS) and attributions < ATTRIBUTIONS_MAX:
            attributions += 1
            start = _attribution_start(lines, number)
            after = _next_line(lines, number)
            is_marked = after < len(lines) and lines[after].lstrip().startswith(">")
            if start is not None and not is_marked:
                return _History(start)
    return _History(len(lines))


def _may_introduce(bare: str) -> bool:
    """Say quickly whether a line may be one of those that stand above a quotation."""
    if not bare or bare[0] == ">":
        return False
    if bare[0] in "-_" or bare[-1] in COLONS:
        return True
    label = bare[:LABEL_CHARS_MAX]
    return _COLON in label or _WIDE_COLON in label


def _quoted_lines(lines: Sequence[str], history: _History) -> set[int]:
    """Number the quoted lines before the history, with the line that begins each quotation."""
    if history.is_forwarded:
        return set()
    lines = lines[: history.start]
    marked = [number for number, line in enumerate(lines) if ">" in line]
    quoted = {number for number in marked if lines[number].lstrip().startswith(">")}
    dropped = set(quoted)
    attributions = 0
    for number in sorted(quoted):
        before = _line_before(lines, number)
        if before < 0 or before in quoted or not lines[before].rstrip().endswith(COLONS):
            continue
        attributions += 1
        if attributions > ATTRIBUTIONS_MAX:
            break
        start = _attribution_start(lines, before, is_marked=True)
        if start is not None:
            dropped |= set(range(start, number))
    return dropped


def _attribution_start(lines: Sequence[str], end: int, *, is_marked: bool = False) -> int | None:
    """Find where the words begin that introduce a quotation and end here; None where none do."""
    if not ATTRIBUTION_END.search(lines[end][-400:]):
        return None
    first = max(0, end - ATTRIBUTION_LINES_MAX + 1)
    for start in range(end, first - 1, -1):
        if not lines[start].strip() or lines[start].lstrip().startswith(">"):
            break
        words = " ".join(lines[start : end + 1])[:LINE_CHARS_MAX]
        if ATTRIBUTION_START.match(lines[start]) and _has_digit(words):
            return start
    # In Chinese, for example, the name comes before the date.
    line = lines[end][:LINE_CHARS_MAX]
    is_certain = is_marked or (_has_digit(line) and "@" in line)
    return end if is_certain else None


def _has_digit(text: str) -> bool:
    return any(char.isdigit() for char in text)


def _is_underline(bare: str) -> bool:
    return len(bare) >= UNDERLINE_CHARS_MIN and not bare.strip("_")


def _is_old_header(lines: Sequence[str], start: int) -> bool:
    """Say whether lines are the header of an older mail: From, and two more fields."""
    kinds: set[str] = set()
    for number, line in enumerate(lines[start : start + HEADER_LINES_MAX]):
        match = HEADER_LINE.match(line[:LINE_CHARS_MAX])
        kind = match.lastgroup if match else None
        if number == 0 and kind != "from":
            return False
        if kind is not None:
            kinds.add(kind)
    return len(kinds) >= 3


def _next_line(lines: Sequence[str], number: int) -> int:
    """Find the next line that is not blank."""
    after = number + 1
    while after < len(lines) and not lines[after].strip():
        after += 1
    return after


def _line_before(lines: Sequence[str], number: int) -> int:
    before = number - 1
    while before >= 0 and not lines[before].strip() and number - before < 3:
        before -= 1
    return before


def _without_signature(lines: list[str]) -> list[str]:
    end = len(lines)
    for number, line in enumerate(lines):
        if not line.startswith("--") or line.rstrip() != "--":
            continue
        if line == "-- " or end - number <= SIGNATURE_LINES_MAX:
            end = number
            break
    while end and not lines[end - 1].strip():
        end -= 1
    if end and DEVICE_SIGNATURE.match(lines[end - 1][:LINE_CHARS_MAX]):
        end -= 1
    return lines[:end]
