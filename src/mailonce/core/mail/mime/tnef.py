"""Take attachments and text out of `winmail.dat`, which Outlook sends in Microsoft's own format.

TNEF (MS-OXTNEF) is a list of attributes, some of which hold lists of MAPI properties. What we need
is read; the rest is skipped by its length.
"""

import struct
from collections.abc import Iterator

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.problem import MailProblem

TYPES = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
ATTRIBUTES_MAX = 5_000
PROPERTIES_MAX = 2_000
# Of one property.
VALUES_MAX = 100
ATTACHMENTS_MAX = 200

_SIGNATURE = 0x223E9F78
_BODY, _CODE_PAGE = 0x0002800C, 0x00069007
_MESSAGE_PROPERTIES, _ATTACHMENT_PROPERTIES = 0x00069003, 0x00069005
_RENDER, _DATA, _TITLE = 0x00069002, 0x0006800F, 0x00018010
_TEXT, _HTML, _FILE_NAME, _LONG_NAME = 0x1000, 0x1013, 0x3704, 0x3707
_MIME_TYPE, _CONTENT_ID, _OBJECT = 0x370E, 0x3712, 0x3701
_FIXED_BYTES = {
    0x0002: 4, 0x0003: 4, 0x0004: 4, 0x0005: 8, 0x0006: 8, 0x0007: 8, 0x000A: 4, 0x000B: 4,
    0x0014: 8, 0x0040: 8, 0x0048: 16,
}  # fmt: skip
_NARROW, _WIDE, _BINARY, _OBJECT_TYPE = 0x001E, 0x001F, 0x0102, 0x000D
_LONG = struct.Struct("<L")
_ATTRIBUTE = struct.Struct("<BLL")


class TnefAttachment(Struct, frozen=True, kw_only=True, gc=False):
    """A file that was inside; its name is as the sender wrote it."""

    name: str | None
    type: str | None
    content_id: str | None
    content: bytes


class TnefContent(Struct, frozen=True, kw_only=True, gc=False):
    """What was found."""

    text: str | None = None
    html: str | None = None
    attachments: tuple[TnefAttachment, ...] = ()


class _Draft:
    """An attachment whose attributes are still being read."""

    def __init__(self) -> None:
        self.title: str | None = None
        self.content: bytes | None = None
        self.properties: dict[int, bytes | str] = {}

    def finish(self) -> TnefAttachment | None:
        content = self.content
        if content is None:
            value = self.properties.get(_OBJECT)
            content = value if isinstance(value, bytes) else None
        if content is None:
            return None
        return TnefAttachment(
            name=self._text(_LONG_NAME) or self.title or self._text(_FILE_NAME),
            type=self._text(_MIME_TYPE),
            content_id=self._text(_CONTENT_ID),
            content=content,
        )

    def _text(self, name: int) -> str | None:
        value = self.properties.get(name)
        return (value or None) if isinstance(value, str) else None


def read_tnef(content: bytes, budget: DigestBudget) -> TnefContent | None:
    """Read what can be read; None where this is no TNEF at all."""
    if len(content) < 6 or _LONG.unpack_from(content)[0] != _SIGNATURE:
        budget.note(MailProblem.BAD_TNEF)
        return None
    codec = "cp1252"
    message: dict[int, bytes | str] = {}
    drafts: list[_Draft] = []
    text: str | None = None
    for name, value in _attributes(content, budget):
        if name == _CODE_PAGE and len(value) >= 4:
            codec = _codec(_LONG.unpack_from(value)[0])
        elif name == _BODY:
            text = _narrow(value, codec)
        elif name == _MESSAGE_PROPERTIES:
            message |= _properties(value, codec, budget)
        elif name == _RENDER:
            if len(drafts) >= ATTACHMENTS_MAX:
                budget.note(MailProblem.BAD_TNEF)
                break
            drafts.append(_Draft())
        elif drafts:
            _add(drafts[-1], name, value, codec, budget)
    attachments = [draft.finish() for draft in drafts]
    return TnefContent(
        text=_message_text(message.get(_TEXT), codec) or text,
        html=_message_text(message.get(_HTML), codec),
        attachments=tuple(one for one in attachments if one is not None),
    )


def _add(draft: _Draft, name: int, value: bytes, codec: str, budget: DigestBudget) -> None:
    if name == _DATA:
        draft.content = value
    elif name == _TITLE:
        draft.title = _narrow(value, codec) or None
    elif name == _ATTACHMENT_PROPERTIES:
        draft.properties |= _properties(value, codec, budget)


def _attributes(content: bytes, budget: DigestBudget) -> Iterator[tuple[int, bytes]]:
    at = 6
    for _ in range(ATTRIBUTES_MAX):
        if at + _ATTRIBUTE.size > len(content):
            if at < len(content):
                budget.note(MailProblem.BAD_TNEF)
            return
        _, name, size = _ATTRIBUTE.unpack_from(content, at)
        at += _ATTRIBUTE.size
        if at + size > len(content):
            budget.note(MailProblem.BAD_TNEF)
            return
        yield name, content[at : at + size]
        at += size + 2
    budget.note(MailProblem.BAD_TNEF)


def _properties(value: bytes, codec: str, budget: DigestBudget) -> dict[int, bytes | str]:
    """Read a list of MAPI properties as far as it goes."""
    properties: dict[int, bytes | str] = {}
    try:
        for name, kind, content in _read_properties(value):
            properties[name] = _value(kind, content, codec)
    except (struct.error, ValueError):
        budget.note(MailProblem.BAD_TNEF)
    return properties


def _read_properties(value: bytes) -> Iterator[tuple[int, int, bytes]]:
    count, at = _LONG.unpack_from(value)[0], 4
    for _ in range(min(count, PROPERTIES_MAX)):
        kind, name = struct.unpack_from("<HH", value, at)
        at += 4
        if name >= 0x8000:
            at = _skip_name(value, at)
        several = bool(kind & 0x1000)
        kind &= 0x0FFF
        values = 1
        if several or kind in {_NARROW, _WIDE, _BINARY, _OBJECT_TYPE}:
            values = _LONG.unpack_from(value, at)[0]
            at += 4
        if values > VALUES_MAX:
            raise ValueError("a property has too many values")
        for number in range(values):
            if kind in _FIXED_BYTES:
                size, padded = _FIXED_BYTES[kind], _FIXED_BYTES[kind]
            else:
                size = _LONG.unpack_from(value, at)[0]
                at += 4
                padded = size + -size % 4
            if at + size > len(value):
                raise ValueError("a property is longer than the list")
            if number == 0:
                yield name, kind, value[at : at + size]
            at += padded


def _skip_name(value: bytes, at: int) -> int:
    """Skip the identity of a named property: a GUID, and a number or a text."""
    kind, size = struct.unpack_from("<LL", value, at + 16)
    return at + 24 + (size + -size % 4 if kind == 1 else 0)


def _value(kind: int, content: bytes, codec: str) -> bytes | str:
    if kind == _WIDE:
        return content.decode("utf-16-le", "replace").rstrip("\0")
    if kind == _OBJECT_TYPE:
        # The object stands behind the identifier of its kind.
        return content[16:]
    return _narrow(content, codec) if kind == _NARROW else content


def _narrow(content: bytes, codec: str) -> str:
    return content.decode(codec, "replace").rstrip("\0")


def _message_text(value: bytes | str | None, codec: str) -> str | None:
    text = _narrow(value, codec) if isinstance(value, bytes) else value
    return text or None


def _codec(code_page: int) -> str:
    codec = {65001: "utf-8", 936: "gb18030", 950: "big5", 932: "cp932", 949: "cp949"}.get(code_page)
    return codec or (f"cp{code_page}" if code_page in range(1250, 1259) else "cp1252")
