"""Undo content transfer encodings, also where they are not what they claim to be."""

import binascii
import re
from itertools import islice

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem

IDENTITY = frozenset({"", "7bit", "8bit", "binary"})
UUENCODE = frozenset({"x-uuencode", "uuencode", "x-uue", "uue"})
# Pieces of Base64 that each end in padding; a sane encoder writes one.
SEGMENTS_MAX = 2_000
LINES_MAX = 2_000_000

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NOT_BASE64 = bytes(set(range(256)) - set(_BASE64) - set(b"="))
_SPACES = b" \t\r\n"
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
    letters = content.translate(None, _SPACES)
    strange = len(letters)
    letters = letters.translate(None, _NOT_BASE64)
    strange -= len(letters)
    if strange:
        budget.note(MailProblem.BAD_BASE64)
        if strange * 4 > len(letters):
            # This is text that somebody called Base64.
            return content
    body = letters.rstrip(b"=")
    if b"=" not in body and len(letters) % 4 == 0 and len(letters) - len(body) <= 2:
        return binascii.a2b_base64(letters)
    if b"=" not in body:
        budget.note(MailProblem.BAD_BASE64)
        return _decode_segment(body)
    segments = [segment for segment in body.split(b"=", SEGMENTS_MAX) if segment]
    if len(segments) > SEGMENTS_MAX or any(len(one) % 4 == 1 for one in segments):
        budget.note(MailProblem.BAD_BASE64)
    return b"".join(_decode_segment(segment) for segment in segments[:SEGMENTS_MAX])


def _decode_segment(letters: bytes) -> bytes:
    """Decode letters without padding; a last one that stands alone holds no byte."""
    if len(letters) % 4 == 1:
        letters = letters[:-1]
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


def decode_uuencode(content: bytes, budget: DigestBudget) -> bytes:
    """Decode the first uuencoded file of a text."""
    lines = iter(content.split(b"\n", LINES_MAX))
    for line in lines:
        if line.startswith(b"begin "):
            break
    else:
        budget.note(MailProblem.BAD_UUENCODE)
        return content
    pieces: list[bytes] = []
    for line in islice(lines, LINES_MAX):
        letters = line.rstrip(b"\r")
        if letters in {b"", b"`", b" ", b"end"}:
            break
        try:
            pieces.append(binascii.a2b_uu(letters))
        except binascii.Error:
            pieces.append(_decode_long_line(letters, budget))
    return b"".join(pieces)


def _decode_long_line(letters: bytes, budget: DigestBudget) -> bytes:
    """Decode a line that has more letters than its length says, as some encoders pad it."""
    letters_count = ((letters[0] - 32 & 63) * 4 + 5) // 3
    try:
        return binascii.a2b_uu(letters[:letters_count])
    except binascii.Error:
        budget.note(MailProblem.BAD_UUENCODE)
        return b""
