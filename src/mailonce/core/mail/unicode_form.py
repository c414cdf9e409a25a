"""Write text in the one spelling that Unicode has for it, in a time that its sender cannot choose.

Normalising sorts the marks that stand on one letter, in Python in quadratic time: 256 kB of marks
take half a minute. The stream-safe format (Unicode Annex 15) has at most 30 on one letter.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Literal

MARKS_MAX = 30
# No mark is below or above; looking at all of Unicode would take ten times as long.
_FIRST, _END = 0x300, 0x1F000
_SURROGATES = range(0xD800, 0xE000)


def unicode_form(form: Literal["NFC", "NFKC"], text: str) -> str:
    """Normalise a text; of more marks on one letter than anybody writes, the first are kept."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, cut_marks(text))


def cut_marks(text: str) -> str:
    """Keep the first marks of each letter."""
    return _too_many_marks().sub(r"\1", text)


@lru_cache(maxsize=1)
def _too_many_marks() -> re.Pattern[str]:
    marks = "".join(
        re.escape(chr(code))
        for code in range(_FIRST, _END)
        if code not in _SURROGATES and _is_mark(chr(code))
    )
    return re.compile(f"([{marks}]{{{MARKS_MAX}}})[{marks}]+")


def _is_mark(character: str) -> bool:
    """Say whether a character is a mark, or becomes one: half-width sound marks, Tibetan vowels."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) != 0
