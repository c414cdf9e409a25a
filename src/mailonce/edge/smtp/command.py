"""Read the commands of SMTP: a verb, and the paths and parameters of MAIL and RCPT.

An address is kept as it was written; whom it belongs to is decided inside. Quoted local parts,
address literals and SMTPUTF8 are read, source routes are passed over as RFC 5321 demands.
"""

import re
from typing import NamedTuple

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies

ADDRESS_BYTES_MAX = 512
BODIES = frozenset({"7BIT", "8BITMIME"})
_ATOM = r'[^\s<>"\\@,:;()\[\]\x00-\x20\x7f-\x9f]'
_QUOTED = r'"(?:[^"\\\x00-\x1f\x7f-\x9f]|\\[\x20-\x7e])*"'
_LABEL = r"[^\s\x00-\x2c./:-@\[-^`{-\x9f]"
_DOMAIN = rf"(?:{_LABEL}+(?:\.{_LABEL}+)*|\[[A-Za-z0-9:.\-]+\])"
_PATH = re.compile(
    rf' *<(?:@[^\s<>":]*:)?(?P<address>(?:{_ATOM}+|{_QUOTED})(?:@{_DOMAIN})?|)>'
    r"(?P<parameters>(?: +[^\s\x00-\x20\x7f]+)*) *"
)
_PARAMETER = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)(?:=([\x21-\x3c\x3e-\x7e]+))?")
_SIZE_DIGITS_MAX = 20


class _Path(NamedTuple):
    """An address, and what was said about it."""

    address: str
    parameters: dict[str, str | None]


class MailSender(NamedTuple):
    """What MAIL said; the address is '' for the null sender."""

    address: str
    size_bytes: int | None
    is_utf8: bool


def read_sender(argument: bytes, *, offers_auth: bool) -> MailSender | DoorRefusal:
    """Read what follows `MAIL `."""
    path = _read_path(argument, b"FROM:", replies.BAD_SENDER)
    if isinstance(path, DoorRefusal):
        return path
    size_bytes: int | None = None
    is_utf8 = False
    for name, value in path.parameters.items():
        match name, value:
            case "SIZE", str(digits) if digits.isdecimal() and len(digits) <= _SIZE_DIGITS_MAX:
                size_bytes = int(digits)
            case "BODY", str(body) if body.upper() in BODIES:
                pass
            case "SMTPUTF8", None:
                is_utf8 = True
            case "AUTH", str() if offers_auth:
                # Who wrote the mail, says another server: nothing that we need or believe.
                pass
            case (("SIZE" | "BODY" | "SMTPUTF8"), _):
                return replies.BAD_PARAMETER
            case _:
                return replies.STRANGE_PARAMETER
    if not (is_utf8 or path.address.isascii()):
        return replies.NEEDS_UTF8
    return MailSender(path.address, size_bytes, is_utf8)


def read_recipient(argument: bytes, *, is_utf8: bool) -> str | DoorRefusal:
    """Read what follows `RCPT `; `is_utf8` is what MAIL said."""
    path = _read_path(argument, b"TO:", replies.BAD_RECIPIENT)
    if isinstance(path, DoorRefusal):
        return path
    if not path.address:
        return replies.BAD_RECIPIENT
    if path.parameters:
        return replies.STRANGE_PARAMETER
    if not (is_utf8 or path.address.isascii()):
        return replies.NEEDS_UTF8
    return path.address


def _read_path(argument: bytes, keyword: bytes, refusal: DoorRefusal) -> _Path | DoorRefusal:
    if argument[: len(keyword)].upper() != keyword:
        return refusal
    try:
        text = argument[len(keyword) :].decode()
    except UnicodeDecodeError:
        return refusal
    read = _PATH.fullmatch(text)
    if read is None or len(read["address"].encode()) > ADDRESS_BYTES_MAX:
        return refusal
    parameters: dict[str, str | None] = {}
    for word in read["parameters"].split():
        parameter = _PARAMETER.fullmatch(word)
        if parameter is None or parameter[1].upper() in parameters:
            return replies.BAD_PARAMETER
        parameters[parameter[1].upper()] = parameter[2]
    return _Path(read["address"], parameters)
