"""Words of a mail's header: encoded, quoted and folded so that nothing in them can end a line.

Written here because the standard library loses the quotes of a long name when it folds: the name
"a, b" then is two recipients (cpython issues 80222 and 100884).
"""

import re
from base64 import b64encode
from collections.abc import Iterable

from mailonce.core.bounds import HEADER_NAME
from mailonce.core.mail.domain_name import domain_in_ascii
from mailonce.core.sends.outgoing_mail import Mailbox

LINE_CHARS = 76
# RFC 5322 allows 998.
LINE_CHARS_MAX = 990
# Of an encoded word 75 characters; the rest of it is "=?utf-8?b?…?=".
_WORD_BYTES = 45
_PLAIN = re.compile(r"[!-~](?:[ -~]*[!-~])?|")
_PHRASE = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_BREAK = re.compile(r"(?<=\S) (?=\S)")


def header(name: str, value: str) -> bytes:
    """Write one header with its line end; `value` may be anything, and is read back as it was."""
    text = _folded(value, len(name) + 2) if _is_plain(value) else encoded(value)
    if max(map(len, text.split("\r\n"))) > LINE_CHARS_MAX - len(name):
        text = encoded(value)
    return _line(name, text)


def mailboxes(name: str, boxes: Iterable[Mailbox]) -> bytes:
    """Write a header of addresses, one on each line."""
    return _line(name, ",\r\n ".join(map(_mailbox, boxes)))


def with_name(mailbox: Mailbox) -> str:
    """Write a mailbox as APIs take it: `"Doe, Ann" <ann@example.net>`, in any script."""
    name = " ".join(mailbox.name.split())
    address = ascii_domain(mailbox.address)
    return f"{_quoted(name)} <{address}>" if name else address


def ascii_domain(address: str) -> str:
    """Write the domain of an address as DNS has it; what is before the @ stays in its script."""
    local, _, domain = address.rpartition("@")
    if domain.isascii():
        return address.removesuffix(".")
    return f"{local}@{domain_in_ascii(domain) or domain}"


def encoded(text: str) -> str:
    """Write a text as encoded words (RFC 2047), one on each line."""
    words, word = [], b""
    for character in text:
        raw = character.encode()
        if len(word) + len(raw) > _WORD_BYTES:
            words.append(word)
            word = b""
        word += raw
    words.append(word)
    return "\r\n ".join(f"=?utf-8?b?{b64encode(word).decode()}?=" for word in words)


def _line(name: str, value: str) -> bytes:
    assert HEADER_NAME.fullmatch(name), f"{name!r} is no name of a header"
    lines = value.replace("\r\n ", "")
    assert "\n" not in lines, "a value may not end its line"
    assert "\r" not in lines, "a value may not end its line"
    return f"{name}: {value}\r\n".encode()


def _mailbox(mailbox: Mailbox) -> str:
    address = f"<{ascii_domain(mailbox.address)}>"
    # Readers of encoded words fold spaces into one, and drop those at the ends.
    plain = " ".join(mailbox.name.split())
    if not plain:
        return address
    name = _quoted(plain) if _is_plain(plain) else encoded(plain)
    space = " " if len(name) + len(address) < LINE_CHARS - 12 else "\r\n "
    return f"{name}{space}{address}"


def _quoted(name: str) -> str:
    if _PHRASE.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_plain(text: str) -> bool:
    """Say whether a text stands for itself; what looks like an encoded word does not."""
    return "=?" not in text and _PLAIN.fullmatch(text) is not None


def _folded(text: str, used: int) -> str:
    """Break long text at single spaces; where there is none, the line stays long."""
    lines, rest = [], text
    while used + len(rest) > LINE_CHARS:
        breaks = [match.start() for match in _BREAK.finditer(rest)]
        place = max((at for at in breaks if at <= LINE_CHARS - used), default=None)
        if place is None:
            place = next(iter(breaks), None)
        if place is None:
            break
        lines.append(rest[:place])
        rest, used = rest[place + 1 :], 1
    return "\r\n ".join([*lines, rest])
