"""Decode text in the charset that somebody named for it, as far as that is one of text."""

import codecs
import re

# Python knows more: some are no charsets, and some take quadratic time (punycode, idna).
_KNOWN = frozenset(
    """
    utf-8 utf-16 utf-16-be utf-16-le utf-32 utf-7 iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5
    iso8859-6 iso8859-7 iso8859-8 iso8859-9 iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15
    iso8859-16 cp437 cp850 cp852 cp855 cp858 cp862 cp866 cp874 cp932 cp949 cp950 cp1250 cp1251
    cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 koi8-r koi8-u mac-roman mac-cyrillic tis-620
    shift_jis shift_jisx0213 euc_jp iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_3 gb2312 gbk
    gb18030 hz big5 big5hkscs euc_kr iso2022_kr johab
    """.split()  # noqa: SIM905
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,40}")


def decoded(raw: bytes, charset: str | None) -> str:
    """Decode bytes; what fits neither the charset nor UTF-8 is replaced, never an error."""
    try:
        return raw.decode(_codec(charset))
    except UnicodeError:
        pass
    try:
        return raw.decode()
    except UnicodeError:
        return raw.decode(_codec(charset), "replace")


def _codec(charset: str | None) -> str:
    """Give the name of a codec that is safe to use; UTF-8, which has ASCII in it, for any other."""
    if charset is None or not _NAME.fullmatch(charset):
        return "utf-8"
    try:
        name = codecs.lookup(charset).name
    except LookupError:
        return "utf-8"
    return name if name in _KNOWN else "utf-8"
