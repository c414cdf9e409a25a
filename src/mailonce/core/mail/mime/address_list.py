"""Read the addresses of a header field, as senders really write them.

One pass over the characters (RFC 5322 with its obsolete forms): comments at any depth, quoted names
and local parts, groups, routes. A name is decoded only after the list was taken apart, so that an
encoded word cannot add an address. Where a comma stands unquoted in a name ("Doe, Ann <a@b>"), the
words before it are part of the name.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from mailonce.core.mail.address import DOMAIN_CHARS_MAX, read_domain
from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.incoming import AddressField
from mailonce.core.mail.mime.header_text import decode_header, decode_raw_bytes
from mailonce.core.mail.problem import MailProblem

ADDRESS_CHARS_MAX = 320
NAME_CHARS_MAX = 500

_PIECE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|[,;:<>()\\]|[^\",;:<>()\\]+")
_QUOTED_PAIR = re.compile(r"\\(.)")
_SPACE = re.compile(r"\s+")
_SAFE_ADDRESS = re.compile(
    r"[^\s<>(),;:\"\\@]{1,128}@[\w.-]{1,255}|[^\s<>(),;:\"\\@]{1,128}@\[[\w.:]{2,60}\]"
)


class _Entry(Struct):
    """What stands between two commas."""

    words: list[str]
    angle: list[str] | None = None
    comment: str = ""


def read_addresses(value: str, budget: DigestBudget) -> tuple[AddressField, ...]:
    """Read a list of mailboxes; those inside a group are taken out of it."""
    if not value:
        return ()
    addresses: list[AddressField] = []
    pending: list[str] = []
    for entry in _entries(decode_raw_bytes(value, budget)):
        if len(addresses) >= budget.limits.addresses_max:
            budget.note(MailProblem.TOO_MANY_ADDRESSES)
            break
        if entry.angle is None and "@" not in "".join(entry.words):
            text = "".join(entry.words).strip()
            if text and len(pending) < 10:
                pending.append(text)
            continue
        addresses.append(_address(entry, pending, budget))
        pending = []
    if pending:
        budget.note(MailProblem.BAD_ADDRESS)
    return tuple(addresses)


def _address(entry: _Entry, pending: list[str], budget: DigestBudget) -> AddressField:
    if entry.angle is None:
        # A bare address, perhaps with a name behind it in a comment.
        text, name = "".join(entry.words), entry.comment
        if pending:
            budget.note(MailProblem.BAD_ADDRESS)
    else:
        text, name = "".join(entry.angle), "".join(entry.words) or entry.comment
        name = ", ".join([*pending, name.strip()])
    address = _clean_address(text, budget)
    decoded = decode_header(_unquoted(name), budget)[:NAME_CHARS_MAX]
    return AddressField(address, decoded or None)


def _clean_address(text: str, budget: DigestBudget) -> str:
    text = text.strip()
    if text.startswith("@") and ":" in text:
        # A route, which nobody has used for thirty years.
        text = text.rpartition(":")[2]
    if "=?" in text:
        text = decode_header(text, budget)
    if _SPACE.search(text):
        text = _SPACE.sub("", text)
    if text.lower().startswith("mailto:"):
        text = text[7:]
    local, at, domain = text.rpartition("@")
    if not at:
        if text:
            budget.note(MailProblem.BAD_ADDRESS)
        return decode_header(text[:ADDRESS_CHARS_MAX], budget)
    address = f"{local}@{_ascii_domain(domain)}"
    if not _SAFE_ADDRESS.fullmatch(address) and not local.startswith('"'):
        budget.note(MailProblem.BAD_ADDRESS)
    return decode_header(address[:ADDRESS_CHARS_MAX], budget)


def _ascii_domain(domain: str) -> str:
    """Write a domain as DNS does: a letter that only looks like another one shows there."""
    domain = domain.rstrip(".").lower()
    if domain.isascii() or len(domain) > DOMAIN_CHARS_MAX:
        return domain
    return read_domain(domain) or domain


def _unquoted(text: str) -> str:
    text = text.strip()
    if '"' not in text:
        return text
    if "\\" in text:
        text = _QUOTED_PAIR.sub(r"\1", text.replace('\\"', "\x1f"))
        return text.replace('"', "").replace("\x1f", '"')
    return text.replace('"', "")


def _entries(value: str) -> Iterator[_Entry]:
    """Cut a list at its commas, outside of quotes, comments and brackets."""
    entry = _Entry([])
    depth = 0
    in_angle = False
    comment: list[str] = []
    for match in _PIECE.finditer(value):
        piece = match[0]
        if depth or piece == "(":
            depth += (piece == "(") - (piece == ")")
            if depth or piece != ")":
                comment.append(piece)
            if depth == 0:
                entry.comment = "".join(comment)[1:].strip()
                comment = []
        elif in_angle:
            if piece == ">":
                in_angle = False
            elif piece != "<" and entry.angle is not None:
                entry.angle.append(piece)
        elif piece == "<":
            in_angle = True
            entry.angle = entry.angle or []
        elif piece in ",;":
            yield entry
            entry = _Entry([])
        elif piece == ":":
            # What stands before is the name of a group, unless this is a bare "mailto:".
            entry = _Entry([])
        elif piece != ")":
            entry.words.append(piece)
    yield entry
