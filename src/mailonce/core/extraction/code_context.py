"""What stands around a number: the words that say it is the code, or something else."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mailonce.core.extraction.extraction import Evidence
from mailonce.core.extraction.keywords import (
    INPUT_PATTERN,
    LABEL_PATTERN,
    OTHER_NUMBER_PATTERN,
    PROMOTION_PATTERN,
    STRONG_PATTERN,
    WEAK_PATTERN,
)
from mailonce.core.extraction.link_keywords import ACTION_PATTERN
from mailonce.core.extraction.normalise import fold

# A sentence or a line that is longer is looked at this far.
SENTENCE_CHARS_MAX = 250
WEAK_CHARS_MAX = 30
# How far above a code that stands alone its words may be.
ABOVE_LINES_MAX = 3
# Between "Order number:" and its number.
OTHER_GAP_CHARS_MAX = 20
INTRODUCTION_CHARS_MAX = 20
INPUT_CHARS_MAX = 60

Span = tuple[int, int]

# "No. 4711" does not end a sentence.
_SENTENCE_END = re.compile(r"[.!?;] +(?![0-9 ])|\n|[.!?] *$")
_ONLY_MARKS = re.compile(r"[\s\"'*:\[\]().,!|>-]*")
_WORDS_OR_SIGNS = re.compile(r"[^0-9.!?\n]*[:=]?[^0-9.!?]*")


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    strong: Sequence[Span]
    weak: Sequence[Span]
    other: Sequence[Span]
    inputs: Sequence[Span]
    actions: Sequence[Span]
    promotions: Sequence[Span]


@dataclass(slots=True)
class CodeContext:
    """The keywords of all parts of a mail, found once."""

    # Texts without links, and where each has something in the shape of a code.
    parts: Sequence[str]
    spans: Sequence[Sequence[Span]]
    _read: Sequence[_Part] = field(init=False)

    def __post_init__(self) -> None:
        self._read = [_part(text) for text in self.parts]

    @property
    def has_words_of_codes(self) -> bool:
        """Say whether a mail speaks of a code, of entering or of confirming something at all."""
        return any(part.strong or part.weak or part.inputs or part.actions for part in self._read)

    def evidence(self, number: int, start: int, end: int) -> Iterator[Evidence]:
        """Give what speaks for and against a number at this place of a part."""
        part = self._read[number]
        is_alone = self._is_alone(part.text, start, end)
        keyword = self._keyword(number, start, end, is_alone=is_alone)
        if keyword is not None:
            yield keyword
        if keyword is not Evidence.KEYWORD_IN_SENTENCE:
            if self._is_near_weak(number, start, end):
                yield Evidence.WEAK_KEYWORD_NEAR
            if LABEL_PATTERN.search(fold(part.text[max(0, start - WEAK_CHARS_MAX) : start])):
                yield Evidence.CODE_LABEL
            yield from self._request(part, start, end)
        if is_alone:
            yield Evidence.ALONE_ON_LINE
        if self._is_other_number(part, start):
            yield Evidence.OTHER_NUMBER
        if _within(part.promotions, *_sentence(part.text, start, end)):
            yield Evidence.PROMOTION

    @staticmethod
    def _request(part: _Part, start: int, end: int) -> Iterator[Evidence]:
        """Say whether the sentence asks to enter the number, and to verify or confirm something."""
        first, last = _sentence(part.text, start, end)
        near = max(first, start - INPUT_CHARS_MAX), min(last, end + INPUT_CHARS_MAX)
        if _within(part.inputs, *near):
            yield Evidence.INPUT_VERB_NEAR
        if _within(part.actions, first, last):
            yield Evidence.ACTION_IN_SENTENCE

    def is_introduced(self, number: int, start: int) -> bool:
        """Say whether a keyword stands right before a number, as in "Your code is: 2024"."""
        part = self._read[number]
        last = _last_before(part.strong, start)
        if last is None or start - last[1] > INTRODUCTION_CHARS_MAX:
            return False
        between = part.text[last[1] : start]
        return _WORDS_OR_SIGNS.fullmatch(between) is not None and len(between.split()) <= 2

    def _keyword(self, number: int, start: int, end: int, *, is_alone: bool) -> Evidence | None:
        part = self._read[number]
        if _within(part.strong, *_sentence(part.text, start, end)):
            return Evidence.KEYWORD_IN_SENTENCE
        line_start, line_end = _line(part.text, start, end)
        if self._has_keyword_above(number, line_start):
            return Evidence.KEYWORD_IN_LINE_ABOVE
        near = max(line_start, start - SENTENCE_CHARS_MAX), min(line_end, end + SENTENCE_CHARS_MAX)
        if self._has_free_keyword(number, *near):
            return Evidence.KEYWORD_IN_LINE
        if is_alone and self._has_keyword_above(number, line_start, lines=ABOVE_LINES_MAX):
            return Evidence.KEYWORD_ABOVE
        if is_alone and self._has_keyword_below(part, line_end):
            return Evidence.KEYWORD_IN_LINE_BELOW
        if any(other.strong for other in self._read):
            return Evidence.KEYWORD_IN_MAIL
        return None

    def _has_keyword_above(self, number: int, line_start: int, *, lines: int = 1) -> bool:
        """Look at the nearest lines above that have words; codes of a list are passed over."""
        part = self._read[number]
        for _ in range(20):
            if line_start == 0:
                return False
            above_end = line_start - 1
            line_start = part.text.rfind("\n", 0, above_end) + 1
            above = part.text[line_start:above_end]
            if above.strip() and not self._is_list_entry(number, line_start, above_end):
                # A line with a number of its own speaks of that one.
                if lines == 0 or _within(self.spans[number], line_start, above_end):
                    return False
                start = max(line_start, above_end - SENTENCE_CHARS_MAX)
                if _within(part.strong, start, above_end):
                    return True
                lines -= 1
        return False

    def _has_free_keyword(self, number: int, start: int, end: int) -> bool:
        """Look for a keyword whose own sentence has no number: it may be about another one."""
        part, spans = self._read[number], self.spans[number]
        for index in range(bisect_left(part.strong, (start, 0)), len(part.strong)):
            low, high = part.strong[index]
            if high > end:
                return False
            if not _within(spans, *_sentence(part.text, low, high)):
                return True
        return False

    def _is_near_weak(self, number: int, start: int, end: int) -> bool:
        """Look for a weak keyword nearby, with no other number in between."""
        spans, weak = self.spans[number], self._read[number].weak
        index = bisect_left(spans, (start, end))
        first = max(start - WEAK_CHARS_MAX, spans[index - 1][1] if index else 0)
        # What follows in another sentence is about something else.
        last = min(end + WEAK_CHARS_MAX, _sentence(self.parts[number], start, end)[1])
        if index + 1 < len(spans):
            last = min(last, spans[index + 1][0])
        return _within(weak, first, last)

    def _is_list_entry(self, number: int, line_start: int, line_end: int) -> bool:
        spans = self.spans[number]
        index = bisect_left(spans, (line_start, 0))
        if index == len(spans):
            return False
        start, end = spans[index]
        return end <= line_end and self._is_alone(self.parts[number], start, end)

    @staticmethod
    def _has_keyword_below(part: _Part, line_end: int) -> bool:
        rest = part.text[line_end : line_end + SENTENCE_CHARS_MAX]
        below = rest.lstrip("\n ")
        start = line_end + len(rest) - len(below)
        return _within(part.strong, start, start + len(below.partition("\n")[0]))

    @staticmethod
    def _is_alone(text: str, start: int, end: int) -> bool:
        line_start, line_end = _line(text, start, end)
        if start - line_start > 40 or line_end - end > 40:
            return False
        return (
            _ONLY_MARKS.fullmatch(text, line_start, start) is not None
            and _ONLY_MARKS.fullmatch(text, end, line_end) is not None
        )

    @staticmethod
    def _is_other_number(part: _Part, start: int) -> bool:
        last = _last_before(part.other, start)
        if last is None or start - last[1] > OTHER_GAP_CHARS_MAX:
            return False
        between = part.text[last[1] : start]
        if re.search(r"[0-9!?;,]|[.] +[^0-9 ]|\n *\n", between):
            return False
        if _within(part.weak, last[1], start):
            return False
        strong = _last_before(part.strong, start)
        return strong is None or strong[0] < last[1]


def _part(text: str) -> _Part:
    folded = fold(text)
    return _Part(
        text=text,
        strong=_spans(STRONG_PATTERN, folded),
        weak=_spans(WEAK_PATTERN, folded),
        inputs=_spans(INPUT_PATTERN, folded),
        actions=_spans(ACTION_PATTERN, folded),
        other=_spans(OTHER_NUMBER_PATTERN, folded),
        promotions=_spans(PROMOTION_PATTERN, folded),
    )


def _spans(pattern: re.Pattern[str], text: str) -> Sequence[Span]:
    return [match.span() for match in pattern.finditer(text)]


def _within(spans: Sequence[Span], start: int, end: int) -> bool:
    """Say whether one of the spans lies between two places."""
    index = bisect_left(spans, (start, 0))
    return index < len(spans) and spans[index][1] <= end


def _last_before(spans: Sequence[Span], start: int) -> Span | None:
    index = bisect_right(spans, (start, 0)) - 1
    while index >= 0 and spans[index][1] > start:
        index -= 1
    return spans[index] if index >= 0 else None


def _line(text: str, start: int, end: int) -> Span:
    line_end = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if line_end < 0 else line_end


def _sentence(text: str, start: int, end: int) -> Span:
    """Give the sentence around a place, within its line, as far as we look."""
    first = max(0, start - SENTENCE_CHARS_MAX)
    before = list(_SENTENCE_END.finditer(text, first, start))
    behind = _SENTENCE_END.search(text, end, end + SENTENCE_CHARS_MAX)
    stop = behind.start() if behind else min(len(text), end + SENTENCE_CHARS_MAX)
    return (before[-1].end() if before else first), stop
