"""Read `Content-Type` and `Content-Disposition`: a word, and parameters in all their spellings."""

import re
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.mime.charset import decode_text
from mailonce.core.mail.mime.header_text import decode_header, one_line

VALUE_CHARS_MAX = 16_384
PARAMETERS_MAX = 100
# Pieces of one value, as RFC 2231 numbers them.
PIECES_MAX = 200

_PARAMETER = re.compile(r";\s*([^\s=;\"]{1,100})\s*=\s*(\"(?:[^\"\\]|\\.)*\"|[^;]*)")
_QUOTED_PAIR = re.compile(r"\\(.)")
_TYPE = re.compile(r"\s*([\w!#$&^.+-]{1,100})\s*/\s*([\w!#$&^.+-]{1,100})\s*", re.ASCII)
_NUMBERED = re.compile(r"([^*]+)(?:\*(\d{1,3}))?(\*?)")


class FieldValue(Struct, frozen=True, gc=False):
    """The first word of a field in lower case, and its parameters by lower-case names."""

    word: str
    parameters: dict[str, str] = {}


def read_value(value: str, budget: DigestBudget) -> FieldValue:
    """Read a field such as `attachment; filename=a.pdf`."""
    if ";" not in value:
        return FieldValue(value.strip().lower()[:200])
    value = value[:VALUE_CHARS_MAX]
    word = value.partition(";")[0].strip().lower()[:200]
    pieces: dict[str, dict[int, tuple[str, bool]]] = {}
    for count, match in enumerate(_PARAMETER.finditer(value, value.find(";"))):
        if count >= PARAMETERS_MAX:
            break
        numbered = _NUMBERED.fullmatch(match[1].lower())
        if numbered is None:
            continue
        name, number, star = numbered[1], numbered[2], bool(numbered[3])
        plain = _unquoted(match[2].strip())
        # A plain value and an extended one may stand side by side; the extended one counts.
        slot = -1 if number is None and not star else int(number or 0)
        pieces.setdefault(name, {}).setdefault(slot, (plain, star))
    return FieldValue(word, {name: _join(name, slots, budget) for name, slots in pieces.items()})


def content_type_of(word: str) -> str | None:
    """Give `main/sub` in lower case; None where it is none."""
    match = _TYPE.fullmatch(word)
    return f"{match[1]}/{match[2]}".lower() if match else None


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == '"' == text[-1]:
        text = text[1:-1]
        return _QUOTED_PAIR.sub(r"\1", text) if "\\" in text else text
    return text.strip('"')


def _join(name: str, pieces: dict[int, tuple[str, bool]], budget: DigestBudget) -> str:
    """Join the pieces of one value in the order of their numbers, and decode it."""
    numbers = sorted(number for number in pieces if number >= 0)[:PIECES_MAX]
    if name == "boundary":
        # It is compared with bytes of the mail, so it stays as it is.
        return "".join(pieces[number][0] for number in numbers or [-1])
    if not numbers:
        return decode_header(pieces[-1][0], budget)
    text, is_extended = pieces[numbers[0]]
    if len(numbers) == 1 and not is_extended:
        return decode_header(text, budget)
    charset = ""
    if is_extended and text.count("'") >= 2:
        charset, _, text = text.split("'", 2)
    contents = [_piece_bytes(text, is_extended=is_extended)]
    for number in numbers[1:]:
        text, is_piece_extended = pieces[number]
        contents.append(_piece_bytes(text, is_extended=is_piece_extended))
    content = b"".join(contents)
    # Some programs cut an encoded word into numbered pieces.
    decoded = decode_text(content, charset or ("utf-8" if is_extended else None), budget).text
    return one_line(decode_header(decoded, budget) if "=?" in decoded else decoded, budget)


def _piece_bytes(text: str, *, is_extended: bool) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return unquote_to_bytes(raw) if is_extended else raw
