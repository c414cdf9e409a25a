"""Turn bytes into characters, where the charset is declared, wrong, unknown or missing.

Only the codecs in this table are ever used. Python knows many more, and some of them run code that
is slow on purpose-made input (`idna`, `punycode`) or are no charsets at all.
"""

import re
from functools import lru_cache

from charset_normalizer import from_bytes
from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem

LABEL_CHARS_MAX = 60
# A guess looks at so much of the text; more does not make it better.
SAMPLE_BYTES_MAX = 4_096

# Labels as senders write them, without case and punctuation; each codec is the superset that mail
# programs use in practice, as the encoding standard for browsers has it.
_LABELS = {
    "utf_8": "utf8 utf8mb4 unicode11utf8 cp65001 windows65001",
    "cp1252": "usascii ascii iso646us ansix341968 iso88591 iso885911987 latin1 l1 ansi xansi 8bit",
    "iso8859_15": "latin9 latin0",
    "cp1254": "iso88599 latin5",
    "cp874": "tis620 iso885911",
    "iso8859_2": "latin2",
    "iso8859_8": "iso88598i iso88598e",
    "iso8859_6": "iso88596i iso88596e",
    "koi8_r": "koi8r koi8",
    "koi8_u": "koi8u koi8ru",
    "mac_roman": "macintosh mac xmacroman",
    "mac_cyrillic": "xmaccyrillic",
    "gb18030": "gb2312 gbk gb18030 cp936 xgbk euccn csgb2312 gb231280",
    "hz": "hzgb2312",
    "big5hkscs": "big5 big5hkscs xxbig5 cnbig5 csbig5",
    "cp950": "cp950",
    "cp932": "shiftjis sjis xsjis mskanji windows31j cp932 csshiftjis",
    "euc_jp": "eucjp xeucjp",
    "iso2022_jp": "iso2022jp csiso2022jp",
    "iso2022_jp_2": "iso2022jp2",
    "cp949": "euckr ksc56011987 ksc5601 cp949 uhc ksc56011989 cseuckr",
    "iso2022_kr": "iso2022kr",
    "utf_16": "utf16 ucs2 unicode",
    "utf_16_le": "utf16le",
    "utf_16_be": "utf16be",
    "utf_32": "utf32 ucs4",
    "utf_7": "utf7 unicode11utf7",
}  # fmt: skip
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_CODECS |= {f"iso8859{n}": f"iso8859_{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)}
_CODE_PAGES = [437, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 869, 874]
_CODE_PAGES += range(1250, 1259)
_CODECS |= {f"{kind}{n}": f"cp{n}" for n in _CODE_PAGES for kind in ("cp", "windows", "win", "ibm")}

# In these, bytes below 128 are not always ASCII.
_SHIFTING = frozenset(
    {"hz", "iso2022_jp", "iso2022_jp_2", "iso2022_kr", "utf_7", "utf_16", "utf_16_le", "utf_16_be",
     "utf_32"}
)  # fmt: skip
# One byte is one character, so that any bytes are text, and a failure proves nothing.
_SINGLE_BYTE = frozenset(
    codec for codec in _CODECS.values() if codec.startswith(("iso8859", "cp12", "koi8", "mac_"))
)
# Where the first fails, a larger set of the same family may do.
_LARGER = {
    "cp1252": ("latin_1",),
    "big5hkscs": ("cp950",),
    "iso2022_jp": ("iso2022_jp_2004", "iso2022_jp_ext"),
    "euc_jp": ("euc_jis_2004",),
    "cp932": ("shift_jis_2004",),
    "iso8859_8": ("cp1255",),
    "iso8859_7": ("cp1253",),
    "iso8859_6": ("cp1256",),
}
_GUESSABLE = [
    "cp1252", "cp1251", "koi8_r", "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "gb18030",
    "big5", "cp932", "euc_jp", "cp949",
]  # fmt: skip
_PUNCTUATION = re.compile(r"[^a-z0-9]+")
_META_CHARSET = re.compile(
    rb"<meta\b[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?([\w:.-]{2,40})", re.IGNORECASE
)
_BOMS = ((b"\xef\xbb\xbf", "utf_8"), (b"\xff\xfe", "utf_16"), (b"\xfe\xff", "utf_16"))


class DecodedText(Struct, frozen=True, gc=False):
    """Characters, and whether they are exactly what the declared charset makes of the bytes."""

    text: str
    is_exact: bool


@lru_cache(maxsize=256)
def codec_of(label: str) -> str | None:
    """Find the codec for a charset's name; None where it is none that we know."""
    return _CODECS.get(_PUNCTUATION.sub("", label[:LABEL_CHARS_MAX].partition("*")[0].lower()))


def decode_text(content: bytes, label: str | None, budget: DigestBudget) -> DecodedText:
    """Decode a text; what was wrong with its charset is noted."""
    codec = codec_of(label) if label else None
    if content.isascii() and codec not in _SHIFTING:
        if label and codec is None:
            budget.note(MailProblem.UNKNOWN_CHARSET)
        return DecodedText(content.decode("ascii"), is_exact=True)
    for mark, marked in _BOMS:
        if content.startswith(mark) and marked in {codec or marked, "utf_8"}:
            return _decode(
                content.removeprefix(mark) if marked == "utf_8" else content, marked, budget
            )
    if codec is None:
        budget.note(MailProblem.UNKNOWN_CHARSET if label else MailProblem.GUESSED_CHARSET)
        return DecodedText(guess_text(content, budget), is_exact=False)
    if codec in _SINGLE_BYTE and (text := _strictly(content, "utf_8")) is not None:
        # Nobody writes text in such a charset whose bytes happen to be UTF-8.
        budget.note(MailProblem.WRONG_CHARSET)
        return DecodedText(text, is_exact=False)
    return _decode(content, codec, budget)


def decode_html(content: bytes, label: str | None, budget: DigestBudget) -> DecodedText:
    """Decode HTML; where the part declares no charset, the document may."""
    if not label and not content.isascii() and (match := _META_CHARSET.search(content[:2_048])):
        label = match[1].decode("ascii", "replace")
    return decode_text(content, label, budget)


def guess_text(content: bytes, budget: DigestBudget) -> str:
    """Decode bytes of an unknown charset: UTF-8, else what they look like, else Latin-1."""
    text = _strictly(content, "utf_8")
    if text is not None:
        return text
    if b"\x1b$" in content and (text := _strictly(content, "iso2022_jp")) is not None:
        return text
    if budget.take_guess():
        match = from_bytes(_sample(content), cp_isolation=_GUESSABLE).best()
        text = _strictly(content, match.encoding) if match is not None else None
        if text is not None:
            return text
    text = _strictly(content, "cp1252")
    return content.decode("latin_1") if text is None else text


def _decode(content: bytes, codec: str, budget: DigestBudget) -> DecodedText:
    text = _strictly(content, codec)
    if text is not None:
        return DecodedText(text, is_exact=True)
    for larger in _LARGER.get(codec, ()):
        text = _strictly(content, larger)
        if text is not None:
            return DecodedText(text, is_exact=True)
    if codec != "utf_8" and (text := _strictly(content, "utf_8")) is not None:
        budget.note(MailProblem.WRONG_CHARSET)
        return DecodedText(text, is_exact=False)
    text = content.decode(codec, "replace")
    lost = text.count("\ufffd")
    if codec == "utf_8" and _is_mostly_lost(content, lost):
        budget.note(MailProblem.WRONG_CHARSET)
        return DecodedText(guess_text(content, budget), is_exact=False)
    budget.note(MailProblem.UNDECODABLE_BYTES)
    return DecodedText(text, is_exact=False)


def _is_mostly_lost(content: bytes, lost: int) -> bool:
    """Say whether bytes are not UTF-8 at all; a text whose last character was cut still is."""
    if lost == 1 and any(_strictly(content[:-cut], "utf_8") is not None for cut in (1, 2, 3)):
        return False
    return lost * 4 > sum(byte >= 0xC2 for byte in content[:SAMPLE_BYTES_MAX])


def _strictly(content: bytes, codec: str) -> str | None:
    try:
        return content.decode(codec)
    except UnicodeError:
        return None


def _sample(content: bytes) -> bytes:
    """Cut at a space, so that no character is cut in two."""
    if len(content) <= SAMPLE_BYTES_MAX:
        return content
    sample = content[:SAMPLE_BYTES_MAX]
    end = max(sample.rfind(b"\n"), sample.rfind(b" "))
    return sample[:end] if end > 0 else sample
