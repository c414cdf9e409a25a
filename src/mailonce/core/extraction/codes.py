"""Find the one-time code of a mail, and say why.

Each part is searched for numbers and words in the shape of a code. Evidence is added up: words
such as "verification code" nearby, a line of its own; prices, phones, orders and years speak
against it. Nothing is learnt, looked up or guessed: the same mail gives the same answer.

Codes are values of a closed grammar: capitals, digits and dashes, 4 to 16 of them; small letters
only where a format allows them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mailonce.core.extraction.code_context import CodeContext
from mailonce.core.extraction.code_format import CodeFormat
from mailonce.core.extraction.extraction import (
    ArtifactCandidate,
    ArtifactKind,
    Evidence,
    Extraction,
    ExtractionRule,
    SearchedPart,
    conclude,
)
from mailonce.core.extraction.mail_texts import MailTexts, PartText, part_texts
from mailonce.core.extraction.number_context import rejection
from mailonce.core.extraction.origin_bound import find_origin_bound_code

# Of one part; a mail with more numbers than this is no message about a code.
NUMBERS_MAX = 300

WEIGHTS = {
    Evidence.KEYWORD_IN_SENTENCE: 50,
    Evidence.KEYWORD_IN_LINE: 30,
    Evidence.KEYWORD_IN_LINE_ABOVE: 40,
    Evidence.KEYWORD_ABOVE: 30,
    Evidence.KEYWORD_IN_LINE_BELOW: 20,
    Evidence.KEYWORD_IN_MAIL: 10,
    Evidence.WEAK_KEYWORD_NEAR: 20,
    Evidence.CODE_LABEL: 20,
    Evidence.INPUT_VERB_NEAR: 20,
    Evidence.ACTION_IN_SENTENCE: 20,
    Evidence.ALONE_ON_LINE: 25,
    Evidence.ONLY_NUMBER: 15,
    Evidence.SIX_DIGITS: 5,
    Evidence.IN_SUBJECT: 10,
    Evidence.MATCHES_FORMAT: 25,
    Evidence.ONLY_OF_FORMAT: 15,
    Evidence.OTHER_NUMBER: -70,
    Evidence.PROMOTION: -70,
    Evidence.YEAR: -60,
    Evidence.LETTERS_WITHOUT_KEYWORD: -20,
}
ORIGIN_SCORE = 100

# What must not stand right beside a code. Chinese, Japanese and Korean letters may.
_L = "A-Za-zÀ-ɏͰ-Ͽ\u0400-\u04ff0-9_"
_EDGE = rf"(?<![{_L}])(?<![{_L}]-)"
_END = rf"(?![{_L}])(?!-[{_L}])"
_SHAPES = re.compile(
    rf"(?P<single_digits>{_EDGE}\d(?:[ \n]{{1,3}}\d){{3,7}}{_END})"
    rf"|(?P<digit_groups>{_EDGE}(?:\d{{3}}[ -]\d{{3}}|\d{{4}}[ -]\d{{4}}"
    rf"|\d{{2}}(?: \d{{2}}){{2,3}}|\d{{2}}(?:-\d{{2}}){{2,3}}){_END})"
    rf"|(?P<prefixed_digits>(?<![{_L}-])[A-Z]{{1,3}}-\d{{4,8}}{_END})"
    rf"|(?P<digits>{_EDGE}\d{{4,8}}{_END})"
    rf"|(?P<alphanumeric>(?<![{_L}-])(?:[A-Z0-9]{{3,4}}-[A-Z0-9]{{3,4}}|[A-Z0-9]{{5,8}}){_END})"
)
_CHAIN = re.compile(rf"{_EDGE}\d{{1,40}}(?:[ -]\d{{1,40}}){{0,12}}{_END}")
_MORE_BEFORE = re.compile(r"\d[ -]$")
_MORE_AFTER = re.compile(r"[ -]\d")
_SHORT_NUMBER = re.compile(r" \d{1,2}[^\d]")
_MASKED = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{1,20}://|www\.|mailto:|tel:)[!-~]{1,8192}"
    r"|[^\s@]{1,64}@[^\s@]{1,255}"
    r"|(?<![\w.-])(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}/[!-~]{0,8192}"
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Something in the shape of a code."""

    rule: ExtractionRule
    value: str
    start: int
    end: int


def extract_code(
    mail: MailTexts, code_format: CodeFormat | None = None, *, takes_only: bool = False
) -> Extraction:
    """Find the one-time code of a mail; with a format, only what has it.

    `takes_only`: the only value that has the format is the code, also where no words say so.
    """
    parts = part_texts(mail)
    masked = [blank_addresses(part.text) for part in parts]
    shapes = [list(_shapes(text, code_format)) for text in masked]
    context = CodeContext(parts=masked, spans=[[(s.start, s.end) for s in one] for one in shapes])
    candidates = [
        _candidate(part, shape, context, number, code_format)
        for number, part in enumerate(parts)
        for shape in shapes[number][:NUMBERS_MAX]
    ]
    if context.has_words_of_codes:
        candidates = _with_only_number(candidates)
    if takes_only and code_format is not None:
        candidates = _with_only_of_format(candidates)
    candidates += _origin_bound(parts, code_format)
    is_truncated = any(part.is_truncated for part in parts)
    is_truncated |= any(len(one) > NUMBERS_MAX for one in shapes)
    return conclude(ArtifactKind.CODE, candidates, is_truncated=is_truncated)


def blank_addresses(text: str) -> str:
    """Replace links and mail addresses by spaces: digits in them are never codes."""
    return _MASKED.sub(lambda match: " " * len(match[0]), text)


def _shapes(text: str, code_format: CodeFormat | None) -> Iterator[_Shape]:
    shapes = _formatted(text, code_format) if code_format else _usual(text)
    # One more than is looked at shows that there are more.
    yield from islice(shapes, NUMBERS_MAX + 1)


def _usual(text: str) -> Iterator[_Shape]:
    for match in _SHAPES.finditer(text):
        rule = ExtractionRule(match.lastgroup or "digits")
        word = match[0]
        if rule is ExtractionRule.ALPHANUMERIC:
            if word.isdecimal() or not any(c.isdecimal() for c in word) or not _has_letter(word):
                continue
        elif rule is not ExtractionRule.PREFIXED_DIGITS:
            word = _joined(word)
        yield _Shape(rule, word, match.start(), match.end())


def _formatted(text: str, code_format: CodeFormat) -> Iterator[_Shape]:
    if code_format.is_digits:
        for match in _CHAIN.finditer(text):
            groups = re.split("[ -]", match[0])
            is_even = len({len(group) for group in groups}) == 1
            if is_even and code_format.matches(_joined(match[0])):
                yield _Shape(ExtractionRule.FORMAT, _joined(match[0]), match.start(), match.end())
        return
    pattern = re.compile(f"(?<![{_L}-])(?:{code_format.pattern.pattern})(?![{_L}-])")
    for match in pattern.finditer(text):
        word = match[0]
        # A word in small letters is a word, unless it has digits.
        if any(c.isdecimal() for c in word) or word.isupper():
            yield _Shape(ExtractionRule.FORMAT, word, match.start(), match.end())


def _candidate(
    part: PartText,
    shape: _Shape,
    context: CodeContext,
    number: int,
    code_format: CodeFormat | None,
) -> ArtifactCandidate:
    text = context.parts[number]
    against = _refusal(text, shape)
    if against is not None:
        weights: Sequence[Evidence] = (against,)
        score = 0
    else:
        weights = list(context.evidence(number, shape.start, shape.end))
        weights += _own_evidence(part, shape, weights, code_format, context, number)
        score = sum(WEIGHTS[one] for one in weights)
    return ArtifactCandidate(
        kind=ArtifactKind.CODE,
        value=shape.value,
        display=text[shape.start : shape.end],
        rule=shape.rule,
        part=part.part,
        start=shape.start,
        end=shape.end,
        score=score,
        speaks_for=tuple(one for one in weights if WEIGHTS.get(one, -1) > 0),
        speaks_against=tuple(one for one in weights if WEIGHTS.get(one, -1) <= 0),
        digits=shape.value.partition("-")[2]
        if shape.rule is ExtractionRule.PREFIXED_DIGITS
        else "",
    )


def _with_only_number(candidates: Sequence[ArtifactCandidate]) -> list[ArtifactCandidate]:
    """Add to the score of the only number that words or its place speak for."""
    values = {one.value for one in candidates if _has(one, _CONTEXT) and not one.speaks_against}
    if len(values) != 1:
        return list(candidates)
    return [
        _with(one, Evidence.ONLY_NUMBER) if _has(one, _CLOSE) and not one.speaks_against else one
        for one in candidates
    ]


def _with_only_of_format(candidates: Sequence[ArtifactCandidate]) -> list[ArtifactCandidate]:
    """Add to the score of the only value of a format that nothing speaks against."""
    free = [one for one in candidates if not one.speaks_against]
    if len({one.value for one in free}) != 1 or any(one.is_good for one in free):
        return list(candidates)
    return [_with(one, Evidence.ONLY_OF_FORMAT) if one in free else one for one in candidates]


def _with(candidate: ArtifactCandidate, evidence: Evidence) -> ArtifactCandidate:
    return replace(
        candidate,
        score=candidate.score + WEIGHTS[evidence],
        speaks_for=(*candidate.speaks_for, evidence),
    )


def _has(candidate: ArtifactCandidate, evidence: frozenset[Evidence]) -> bool:
    return not evidence.isdisjoint(candidate.speaks_for)


def _refusal(text: str, shape: _Shape) -> Evidence | None:
    """Say what makes a shape no code at all, or None."""
    has_more_before = _MORE_BEFORE.search(text[max(0, shape.start - 2) : shape.start]) is not None
    behind = text[shape.end : shape.end + 8]
    # "482910 10 minutes": a short number behind a whole one belongs to the next words.
    is_separate = shape.rule is ExtractionRule.DIGITS and _SHORT_NUMBER.match(behind) is not None
    if has_more_before or (_MORE_AFTER.match(behind) and not is_separate):
        return Evidence.PART_OF_NUMBER
    return rejection(text, shape.start, shape.end)


def _own_evidence(
    part: PartText,
    shape: _Shape,
    others: Sequence[Evidence],
    code_format: CodeFormat | None,
    context: CodeContext,
    number: int,
) -> Iterator[Evidence]:
    """Give what the shape itself says, beside what stands around it."""
    has_keyword = not _KEYWORDS.isdisjoint(others)
    if len(shape.value) == 6 and shape.value.isdecimal():
        yield Evidence.SIX_DIGITS
    if part.part is SearchedPart.SUBJECT and Evidence.KEYWORD_IN_SENTENCE in others:
        yield Evidence.IN_SUBJECT
    if code_format is not None:
        yield Evidence.MATCHES_FORMAT
    is_year = re.fullmatch(r"19\d\d|20\d\d", shape.value) is not None
    if is_year and not context.is_introduced(number, shape.start):
        yield Evidence.YEAR
    if not shape.value.isdecimal() and not has_keyword and code_format is None:
        yield Evidence.LETTERS_WITHOUT_KEYWORD


def _origin_bound(
    parts: Sequence[PartText], code_format: CodeFormat | None
) -> Iterator[ArtifactCandidate]:
    for part in parts:
        if part.part is SearchedPart.SUBJECT:
            continue
        bound = find_origin_bound_code(part.text)
        if bound is None or (code_format is not None and not code_format.matches(bound.code)):
            continue
        yield ArtifactCandidate(
            kind=ArtifactKind.CODE,
            value=bound.code,
            display=bound.code,
            rule=ExtractionRule.ORIGIN_BOUND,
            part=part.part,
            start=bound.start,
            end=bound.start + len(bound.code),
            score=ORIGIN_SCORE,
            speaks_for=(Evidence.BOUND_TO_ORIGIN,),
            origin=bound.host,
        )


_KEYWORDS = frozenset(
    {
        Evidence.KEYWORD_IN_SENTENCE,
        Evidence.KEYWORD_IN_LINE,
        Evidence.KEYWORD_IN_LINE_ABOVE,
        Evidence.KEYWORD_ABOVE,
        Evidence.KEYWORD_IN_LINE_BELOW,
    }
)
# What is about just this number.
_CLOSE = frozenset({Evidence.ALONE_ON_LINE, Evidence.CODE_LABEL, Evidence.INPUT_VERB_NEAR})
_CONTEXT = _KEYWORDS | _CLOSE | {Evidence.ACTION_IN_SENTENCE, Evidence.WEAK_KEYWORD_NEAR}


def _joined(word: str) -> str:
    return re.sub(r"[ \n-]", "", word)


def _has_letter(word: str) -> bool:
    return any("A" <= c <= "Z" for c in word)
