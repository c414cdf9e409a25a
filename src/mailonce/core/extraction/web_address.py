"""Read a link as browsers read it, and refuse what readers understand differently.

Python's `urlsplit` removes tabs and newlines without a word, and sees another host than browsers do
behind a backslash. So the address is taken apart here, and whatever could be read in two ways is
refused with its reason.
"""

import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote

from mailonce.core.extraction.host_name import (
    has_mixed_scripts,
    is_ip_literal,
    is_valid_name,
)
from mailonce.core.extraction.link_verdict import LinkReason
from mailonce.core.mail.unicode_form import unicode_form

URL_CHARS_MAX = 4_096

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY_END = re.compile(r"[/?#]")
_PORT = re.compile(r":([0-9]*)$")
# The characters of RFC 3986; all others are percent-encoded, as browsers do.
_SAFE = "-._~:/?#[]@!$&'()*+,;=%"
_ENCODED_DOT = re.compile("%2e", re.IGNORECASE)
_DEFAULT_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    """The parts of a link to the web."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""
    fragment: str = ""

    @property
    def url(self) -> str:
        host = self.host
        if self.port != _DEFAULT_PORTS.get(self.scheme):
            host = f"{host}:{self.port}"
        query = f"?{self.query}" if self.query else ""
        fragment = f"#{self.fragment}" if self.fragment else ""
        return f"{self.scheme}://{host}{self.path}{query}{fragment}"


def parse_web_address(url: str) -> WebAddress | LinkReason:
    """Take a link apart, or say why it is refused; what its host means is not judged."""
    if len(url) > URL_CHARS_MAX:
        return LinkReason.TOO_LONG
    if trouble := _character_trouble(url):
        return trouble
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[1].lower() not in _DEFAULT_PORTS:
        return LinkReason.NOT_HTTPS
    rest = url[scheme.end() :]
    if not rest.startswith("//") or rest.startswith("///"):
        return LinkReason.WRONG_SLASHES
    rest = rest[2:]
    end = _AUTHORITY_END.search(rest)
    authority = rest[: end.start()] if end else rest
    rest = rest[len(authority) :]
    place = _host_and_port(authority, scheme[1].lower())
    if isinstance(place, LinkReason):
        return place
    host, port = place
    rest, _, fragment = rest.partition("#")
    path, _, query = rest.partition("?")
    return WebAddress(
        scheme=scheme[1].lower(),
        host=host,
        port=port,
        path=_normal_path(_encode(path)),
        query=_encode(query),
        fragment=_encode(fragment),
    )


def _character_trouble(url: str) -> LinkReason | None:
    for character in url:
        if character == "\\":
            return LinkReason.BACKSLASH
        if character <= " " or character == "\x7f":
            return LinkReason.WHITESPACE if character == " " else LinkReason.CONTROL_CHARACTER
        if character > "\x7f":
            category = unicodedata.category(character)
            if category in {"Zs", "Zl", "Zp"}:
                return LinkReason.WHITESPACE
            if category in {"Cc", "Cf", "Cs"}:
                return LinkReason.CONTROL_CHARACTER
    return None


def _host_and_port(authority: str, scheme: str) -> tuple[str, int] | LinkReason:
    if "@" in authority:
        return LinkReason.USER_IN_HOST
    if "%" in authority:
        return LinkReason.PERCENT_IN_HOST
    if not authority.isascii():
        return _not_ascii(authority)
    port = _DEFAULT_PORTS[scheme]
    match = _PORT.search(authority)
    if match is not None and not (authority.startswith("[") and authority.endswith("]")):
        if not match[1] or len(match[1]) > 5 or not 0 < int(match[1]) <= 65_535:
            return LinkReason.BAD_PORT
        port = int(match[1])
        authority = authority[: match.start()]
    host = authority.lower()
    if host.startswith("["):
        return (host, port) if host.endswith("]") else LinkReason.BAD_HOST
    # One dot at the end names the same host.
    host = host.removesuffix(".")
    if not is_valid_name(host) and not is_ip_literal(host):
        return LinkReason.BAD_HOST
    return host, port


def _not_ascii(authority: str) -> LinkReason:
    plain = unicode_form("NFKC", authority)
    if plain.isascii():
        host = plain.lower().partition(":")[0]
        return LinkReason.IP_ADDRESS if is_ip_literal(host) else LinkReason.LOOKALIKE_HOST
    return LinkReason.MIXED_SCRIPTS if has_mixed_scripts(plain) else LinkReason.NOT_ASCII_HOST


def _encode(part: str) -> str:
    return quote(part, safe=_SAFE, encoding="utf-8", errors="replace")


def _normal_path(path: str) -> str:
    """Resolve "." and "..", also when they are percent-encoded."""
    segments: list[str] = []
    parts = path.split("/")[1:] if path else [""]
    for number, segment in enumerate(parts):
        is_last = number == len(parts) - 1
        plain = _ENCODED_DOT.sub(".", segment)
        if plain == "..":
            del segments[-1:]
        if plain in {".", ".."}:
            if is_last:
                segments.append("")
            continue
        segments.append(segment)
    return "/" + "/".join(segments)
