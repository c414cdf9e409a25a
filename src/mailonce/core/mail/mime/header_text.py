"""Decode what a person wrote into a header field: encoded words, raw bytes, control characters."""

import binascii
import re
from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.mime.charset import codec_of, decode_text, guess_text
from mailonce.core.mail.mime.transfer_encoding import BASE64_LETTERS
from mailonce.core.mail.problem import MailProblem

# RFC 2047 has no spaces in an encoded word; senders do.
_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_LOOKS_ENCODED = re.compile(r"=\?[\w.:*-]{1,60}\?[bBqQ]\?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_SPACES = re.compile(r"[ \t\r\n]+")


class _Word(Struct, frozen=True, gc=False):
    charset: str
    content: bytes


def decode_header(value: str, budget: DigestBudget) -> str:
    """Give the text of a field: decoded, on one line, without control characters."""
    if value.isascii():
        text = value if "=?" not in value else decode_words(value, budget)
    else:
        text = decode_words(decode_raw_bytes(value, budget), budget)
    return one_line(text, budget)


def decode_raw_bytes(value: str, budget: DigestBudget) -> str:
    """Replace raw bytes that are not UTF-8 by the characters that they most likely mean."""
    if not _SURROGATE.search(value):
        return value
    budget.note(MailProblem.RAW_HEADER_BYTES)
    return guess_text(value.encode("utf-8", "surrogateescape"), budget)


def one_line(text: str, budget: DigestBudget) -> str:
    """Make a line that can be stored and shown: no controls, spaces collapsed."""
    if text.isprintable() and "  " not in text:
        return text.strip()
    if _CONTROL.search(text):
        budget.note(MailProblem.CONTROL_CHARACTERS)
        text = _CONTROL.sub(" ", text)
    return _SURROGATE.sub("\ufffd", _SPACES.sub(" ", text)).strip()


def decode_words(value: str, budget: DigestBudget) -> str:
    """Decode the encoded words of a value (RFC 2047).

    Neighbours in one charset are joined before they are decoded: many senders cut a character in
    two. Spaces between neighbours do not count.
    """
    if "=?" not in value:
        return value
    texts: list[str] = []
    for is_text, run in groupby(_pieces(value, budget), key=lambda piece: isinstance(piece, str)):
        if is_text:
            texts += [piece for piece in run if isinstance(piece, str)]
        else:
            words = [piece for piece in run if isinstance(piece, _Word)]
            texts += _decode_run(words, budget)
    text = "".join(texts)
    if _LOOKS_ENCODED.search(text):
        budget.note(MailProblem.BAD_ENCODED_WORD)
    return text


def _pieces(value: str, budget: DigestBudget) -> Iterator[str | _Word]:
    """Give plain text and encoded words in order, without the spaces between two words."""
    at = 0
    follows_word = False
    for match in _ENCODED_WORD.finditer(value):
        between = value[at : match.start()]
        if between and not (follows_word and between.isspace()):
            yield between
        content = _content(match[2], match[3], budget)
        yield match[0] if content is None else _Word(match[1], content)
        follows_word = content is not None
        at = match.end()
    if at < len(value):
        yield value[at:]


def _content(encoding: str, text: str, budget: DigestBudget) -> bytes | None:
    raw = text.encode("utf-8", "surrogateescape")
    if encoding in "qQ":
        return binascii.a2b_qp(raw.replace(b"_", b" "), header=False)
    letters = raw.translate(None, b" \t=")
    if letters.translate(None, BASE64_LETTERS):
        budget.note(MailProblem.BAD_ENCODED_WORD)
        return None
    if len(letters) % 4 == 1:
        budget.note(MailProblem.BAD_ENCODED_WORD)
        letters = letters[:-1]
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


def _decode_run(words: list[_Word], budget: DigestBudget) -> Iterator[str]:
    for _, group in groupby(words, key=lambda word: codec_of(word.charset) or word.charset.lower()):
        same = list(group)
        yield decode_text(b"".join(word.content for word in same), same[0].charset, budget).text
