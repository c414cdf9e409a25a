"""Domains as DNS has them: in whatever script one is written, it has one spelling in ASCII.

The standard library knows the rules of 2003, by which `straße` is `strasse`. Since 2010 the two are
different domains, which may belong to different people: what those rules would replace is kept.
"""

import re
from encodings.idna import nameprep

LABEL_CHARS_MAX = 63
# What stands for a dot in some scripts.
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_KEPT = re.compile("([\u00df\u03c2])")
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def domain_in_ascii(text: str) -> str | None:
    """Write a domain in lower-case ASCII, without a dot at its end; None where it cannot be."""
    domain = text.strip()
    if not domain.isascii():
        try:
            domain = ".".join(_label(one) for one in _DOTS.split(domain))
        except UnicodeError:
            return None
    return None if _BLANK_OR_CONTROL.search(domain) else domain.rstrip(".").lower()


def _label(label: str) -> str:
    if label.isascii():
        return label.lower()
    if len(label) > LABEL_CHARS_MAX:
        raise UnicodeError("the label is too long")
    pieces = _KEPT.split(label.replace("\u1e9e", "\u00df"))
    plain = "".join(one if _KEPT.fullmatch(one) else nameprep(one) for one in pieces)
    return plain if plain.isascii() else f"xn--{plain.encode('punycode').decode()}"
