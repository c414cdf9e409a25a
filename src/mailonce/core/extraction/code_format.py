"""The formats of codes that an expectation may name: a closed grammar, never a regular expression.

    format = term ("-" term)*          at most 5 terms, 40 characters of code
    term   = kind ":" length | prefix  a prefix is 1 to 4 capitals or digits, as in "G-digits:6"
    kind   = "digits" | "letters" | "alphanumeric"
    length = number | number ".." number

`digits:6`, `digits:4..8`, `alphanumeric:8`, `alphanumeric:3-alphanumeric:3`, `G-digits:6`.

A dash of the format stands in the code. Spaces and dashes by which a mail only splits the digits
for the eye (`734 120` for `digits:6`) do not: the value has none.
"""

import re
from dataclasses import dataclass

TERMS_MAX = 5
CODE_CHARS_MIN = 3
CODE_CHARS_MAX = 40
FORMAT_CHARS_MAX = 120

_KINDS = {"digits": "[0-9]", "letters": "[A-Za-z]", "alphanumeric": "[A-Za-z0-9]"}
_TERM = re.compile(r"(digits|letters|alphanumeric):([0-9]{1,2})(?:\.\.([0-9]{1,2}))?")
_PREFIX = re.compile(r"[A-Z0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class CodeFormat:
    """A format, and the pattern made of it: at most five bounded repetitions, one after another."""

    text: str
    pattern: re.Pattern[str]
    is_digits: bool
    chars_min: int
    chars_max: int

    def matches(self, code: str) -> bool:
        return self.pattern.fullmatch(code) is not None


def parse_code_format(text: str) -> CodeFormat:
    """Read a format.

    Raises: ValueError with a sentence that says what a format looks like.
    """
    terms = text.split("-") if len(text) <= FORMAT_CHARS_MAX else []
    parts: list[str] = []
    shortest = longest = 0
    for term in terms:
        if match := _TERM.fullmatch(term):
            low = int(match[2])
            high = int(match[3] or match[2])
            if not 1 <= low <= high:
                raise ValueError(_trouble(text))
            parts.append(f"{_KINDS[match[1]]}{{{low},{high}}}")
        elif _PREFIX.fullmatch(term):
            low = high = len(term)
            parts.append(term)
        else:
            raise ValueError(_trouble(text))
        shortest, longest = shortest + low, longest + high
    dashes = max(0, len(terms) - 1)
    if not parts or len(parts) > TERMS_MAX or all(_PREFIX.fullmatch(term) for term in terms):
        raise ValueError(_trouble(text))
    if shortest + dashes < CODE_CHARS_MIN or longest + dashes > CODE_CHARS_MAX:
        raise ValueError(_trouble(text))
    return CodeFormat(
        text=text,
        pattern=re.compile("-".join(parts)),
        is_digits=len(terms) == 1 and terms[0].startswith("digits"),
        chars_min=shortest + dashes,
        chars_max=longest + dashes,
    )


def _trouble(text: str) -> str:
    return (
        f"{text[:40]!r} is no format of a code; write digits:6, digits:4..8, letters:6, "
        "alphanumeric:8, or several joined by a dash such as alphanumeric:3-alphanumeric:3, "
        f"with {CODE_CHARS_MIN} to {CODE_CHARS_MAX} characters in all"
    )
