"""Undo content transfer encodings, also where they are not what they claim to be."""

import binascii
import re

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem

IDENTITY = frozenset({"", "7bit", "8bit", "binary"})
UUENCODE = frozenset({"x-uuencode", "uuencode", "x-uue", "uue"})
# Pieces of Base64 that each end in padding; a sane encoder writes one.
SEGMENTS_MAX = 2_000
# Lines of uuencode, which hold 45 bytes each.
LINES_MAX = 500_000
LINE_BYTES_MAX = 200

BASE64_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64 = bytes(set(range(256)) - set(BASE64_LETTERS) - set(b"="))
_EXPECTED = BASE64_LETTERS + b"= \t\r\n"
_PADDING = re.compile(rb"=*")
_BROKEN_ESCAPE = re.compile(rb"=(?![0-9A-Fa-f]{2}|[ \t]{0,100}\r?\n|\Z)")


def decode_transfer(content: bytes, encoding: str, budget: DigestBudget) -> bytes:
    """Give the bytes that were encoded; what cannot be decoded stays as it is."""
    encoding = encoding.strip().lower()
    if encoding in IDENTITY:
        return content
    if encoding == "base64":
        return decode_base64(content, budget)
    if encoding == "quoted-printable":
        if _BROKEN_ESCAPE.search(content):
            budget.note(MailProblem.BAD_QUOTED_PRINTABLE)
        return binascii.a2b_qp(content)
    if encoding in UUENCODE:
        return decode_uuencode(content, budget)
    budget.note(MailProblem.UNKNOWN_TRANSFER_ENCODING)
    return content


def decode_base64(content: bytes, budget: DigestBudget) -> bytes:
    """Decode Base64 with gaps, foreign characters and missing or repeated padding."""
    strange = len(content.translate(None, _EXPECTED))
    if not strange and _has_one_end(content):
        try:
            return binascii.a2b_base64(content)
        except binascii.Error:
            pass
    letters = content.translate(None, _NOT_BASE64)
    if strange:
        budget.note(MailProblem.BAD_BASE64)
    if strange * 4 > len(letters) or content.count(b" ") * 10 > len(letters):
        # This is text that somebody called Base64.
        budget.note(MailProblem.BAD_BASE64)
        return content
    if b"=" not in letters and len(letters) % 4:
        budget.note(MailProblem.BAD_BASE64)
    return _decode_segments(letters, budget)


def _has_one_end(content: bytes) -> bool:
    """Say whether content has no spaces in its lines, and padding at its end alone."""
    if b" " in content:
        return False
    padding = content.find(b"=")
    return padding < 0 or not content[padding:].strip(b"=\r\n\t")


def _decode_segments(letters: bytes, budget: DigestBudget) -> bytes:
    """Decode pieces that were each encoded, and padded, alone."""
    pieces = bytearray()
    at = 0
    for _ in range(SEGMENTS_MAX):
        end = letters.find(b"=", at)
        end = len(letters) if end < 0 else end
        segment = letters[at:end]
        if len(segment) % 4 == 1:
            budget.note(MailProblem.BAD_BASE64)
        pieces += _decode_segment(segment)
        padding = _PADDING.match(letters, end)
        at = padding.end() if padding else end
        if at >= len(letters):
            return bytes(pieces)
    budget.note(MailProblem.BAD_BASE64)
    return bytes(pieces)


def _decode_segment(letters: bytes) -> bytes:
    """Decode letters without padding; a last one that stands alone holds no byte."""
    if len(letters) % 4 == 1:
        letters = letters[:-1]
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


def decode_uuencode(content: bytes, budget: DigestBudget) -> bytes:
    """Decode the first uuencoded file of a text."""
    at = 0 if content.startswith(b"begin ") else content.find(b"\nbegin ") + 1
    if not content.startswith(b"begin ", at):
        budget.note(MailProblem.BAD_UUENCODE)
        return content
    decoded = bytearray()
    for _ in range(LINES_MAX):
        at = content.find(b"\n", at) + 1
        if at == 0:
            return bytes(decoded)
        letters = content[at : at + LINE_BYTES_MAX].partition(b"\n")[0].rstrip(b"\r")
        if letters in {b"", b"`", b" ", b"end"}:
            return bytes(decoded)
        try:
            decoded += binascii.a2b_uu(letters)
        except binascii.Error:
            decoded += _decode_long_line(letters, budget)
    budget.note(MailProblem.TOO_LARGE)
    return bytes(decoded)


def _decode_long_line(letters: bytes, budget: DigestBudget) -> bytes:
    """Decode a line that has more letters than its length says, as some encoders pad it."""
    letters_count = ((letters[0] - 32 & 63) * 4 + 5) // 3
    try:
        return binascii.a2b_uu(letters[:letters_count])
    except binascii.Error:
        budget.note(MailProblem.BAD_UUENCODE)
        return b""
