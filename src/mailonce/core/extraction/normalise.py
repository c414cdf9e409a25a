"""Make text comparable: one form for digits, dashes and spaces, whatever alphabet they are in.

The order matters. Punctuation of Chinese and Japanese comes first: NFKC would turn the full-width
comma in `291048，5分钟` into one that looks like a decimal comma.
"""

import re
import unicodedata

from mailonce.core.mail.invisible_characters import remove_invisible
from mailonce.core.mail.unicode_form import unicode_form

# Punctuation that stands without spaces: written as ASCII, with spaces around it.
_SPACED = str.maketrans(
    {
        "，": " , ", "、": " , ", "。": " . ", "．": " . ", "：": " : ", "；": " ; ",
        "！": " ! ", "？": " ? ", "（": " ( ", "）": " ) ", "【": " [ ", "】": " ] ",
        "［": " [ ", "］": " ] ", "「": ' " ', "」": ' " ', "『": ' " ', "』": ' " ',
        "《": ' " ', "》": ' " ', "〈": ' " ', "〉": ' " ', "“": ' " ', "”": ' " ',
        "‘": " ' ", "’": "'", "｜": " | ", "・": " ", "〔": " [ ", "〕": " ] ", "।": " . ",
        "،": " , ", "؛": " ; ", "؟": " ? ", "۔": " . ", "—": " - ", "―": " - ",
    }
)  # fmt: skip
# The long vowel mark of Japanese looks like one and is a letter.
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–−﹘﹣－˗⁃", "-"))
_SPACES = re.compile(r"[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_KEYCAP = re.compile("\u20e3")


class _Digits(dict[int, str]):
    """Every decimal digit of Unicode, by its value; anything else stays as it is."""

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        value = unicodedata.decimal(character, None)
        result = character if value is None else str(value)
        self[code_point] = result
        return result


class _SmallLetters(dict[int, str]):
    """Small letters without accents, one character for each."""

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        # Korean syllables come apart into letters, Japanese ones lose their sound.
        is_accented = code_point < 0x700 or 0x1E00 <= code_point < 0x2000
        base = unicodedata.normalize("NFD", character)[0] if is_accented else character
        result = "i" if base == "ı" else base.lower()
        if len(result) != 1:
            result = character
        self[code_point] = result
        return result


_DIGITS = _Digits()
_SMALL_LETTERS = _SmallLetters()


def normalise(text: str) -> str:
    """Give a text in which digits are ASCII, dashes are "-", and spaces are spaces."""
    text = unicode_form("NFKC", text.translate(_SPACED))
    text = text.translate(_DIGITS)
    text = _KEYCAP.sub("", remove_invisible(text))
    return _SPACES.sub(" ", text.translate(_DASHES))


def fold(text: str) -> str:
    """Give a text in small letters without accents, of the same length."""
    return text.translate(_SMALL_LETTERS)
