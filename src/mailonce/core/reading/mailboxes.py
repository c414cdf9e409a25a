"""Read the mailboxes of an address header, as providers hand it over: `Ann <ann@x>, bob@y`.

Each character is looked at once, so a hostile header costs no more than an honest one. Not
`email.utils.getaddresses`: nested comments make it overflow the stack.
"""

import re
from dataclasses import dataclass, field

from mailonce.core.mail.incoming import AddressField
from mailonce.core.reading.values import ADDRESS_CHARS_MAX
from mailonce.core.text import storable

MAILBOXES_MAX = 1_000
NAME_CHARS_MAX = 1_000

_TOKENS = re.compile(
    r"""
    "(?P<quoted>(?:[^"\\]|\\.)*+)(?:"|\Z)
    | <(?P<angle>[^<>]*+)(?:>|\Z)
    | (?P<mark>[,;:()])
    | (?P<text>[^"<,;:()]++)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SPACES = re.compile(r"\s++")


def read_mailboxes(text: str) -> tuple[AddressField, ...]:
    """Give the mailboxes in their order; a group's members stand for it, what is none is left out.

    A header with more than `MAILBOXES_MAX` of them is read so far.
    """
    mailboxes: list[AddressField] = []
    one = _Mailbox()
    depth = 0
    for token in _TOKENS.finditer(text):
        mark = token["mark"]
        if depth:
            depth += {"(": 1, ")": -1}.get(mark or "", 0)
            if depth:
                one.comment.append(token.group())
        elif mark == "(":
            depth = 1
        elif mark in {",", ";"}:
            mailboxes += one.fields()
            one = _Mailbox()
            if len(mailboxes) >= MAILBOXES_MAX:
                return tuple(mailboxes[:MAILBOXES_MAX])
        elif mark == ":" and not one.has_at:
            # What stood before it is the name of a group.
            one = _Mailbox()
        else:
            one.take(token)
    return tuple([*mailboxes, *one.fields()][:MAILBOXES_MAX])


@dataclass(slots=True)
class _Mailbox:
    words: list[str] = field(default_factory=list)
    comment: list[str] = field(default_factory=list)
    angle: str | None = None
    has_at: bool = False

    def take(self, token: re.Match[str]) -> None:
        if token["quoted"] is not None:
            self.words.append(_ESCAPE.sub(r"\1", token["quoted"]))
        elif token["angle"] is not None:
            # A second one is nobody's honest address; the last stands closest to the end.
            self.angle = token["angle"]
        else:
            self.words.append(token.group())
            self.has_at = self.has_at or "@" in token.group()

    def fields(self) -> list[AddressField]:
        words = _spaced("".join(self.words))
        address = (words if self.angle is None else self.angle).strip()
        name = _spaced("".join(self.comment)) if self.angle is None else words
        if "@" not in address:
            return []
        return [
            AddressField(
                storable(address, chars_max=ADDRESS_CHARS_MAX),
                storable(name, chars_max=NAME_CHARS_MAX) or None,
            )
        ]


def _spaced(text: str) -> str:
    return _SPACES.sub(" ", text).strip()
