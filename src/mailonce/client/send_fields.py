"""What a mail has beside its recipients, and how it is written for the API."""

from base64 import b64decode, b64encode
from binascii import Error as NoBase64Error
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from mailonce.errors import ParseError

# An address, or an address with variables of its own; docs/sends.md.
RecipientFields = str | Mapping[str, Any]


class AttachmentFields(TypedDict, total=False):
    """A file; `name` and `content` are needed."""

    name: str
    # Bytes, or text that is base64.
    content: bytes | str
    type: str
    # Of one that the HTML shows as `cid:…`.
    content_id: str


class SendFields(TypedDict, total=False):
    """What a mail has beside its recipients; see docs/sends.md."""

    subject: str
    text: str
    html: str
    template: str
    variables: Mapping[str, Any]
    stream: str
    cause_id: str
    sender: str
    send_at: datetime | str
    reply_to: str | Sequence[str]
    headers: Mapping[str, str]
    attachments: Sequence[AttachmentFields | Mapping[str, Any]]
    tags: Sequence[str]
    metadata: Mapping[str, str]
    priority: str
    unsubscribe: bool
    ignore_suppressions: bool


def one_recipient(to: object) -> RecipientFields:
    """Give the recipient of one mail.

    Raises: ParseError for several, before anything is sent.
    """
    if not isinstance(to, str | Mapping):
        raise ParseError(f"`to` is a {_kind(to)}; give one address, or several to `send_many`")
    return to


def many_recipients(to: object) -> list[RecipientFields]:
    """Give the recipients of several mails.

    Raises: ParseError for one, whose letters are no recipients.
    """
    if isinstance(to, str | bytes | Mapping) or not isinstance(to, Iterable):
        raise ParseError(f"`to` is a {_kind(to)}; give a list, or one address to `send`")
    return [one_recipient(one) for one in to]


def plain_fields(fields: SendFields) -> dict[str, Any]:
    """Make fields that JSON can hold: bytes become base64, a time becomes text.

    Raises: ParseError, one sentence that names the field.
    """
    for name in fields:
        if name not in SendFields.__annotations__:
            known = ", ".join(SendFields.__annotations__)
            raise ParseError(f"a mail has no field `{name}`; use {known}")
    plain: dict[str, Any] = dict(fields)
    if plain.get("attachments") is not None:
        plain["attachments"] = _attachments(plain["attachments"])
    if isinstance(plain.get("send_at"), datetime):
        plain["send_at"] = _moment(plain["send_at"])
    return plain


def _attachments(given: object) -> list[dict[str, Any]]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise ParseError(f"`attachments` is a {_kind(given)}; give a list of files")
    return [_attachment(f"attachments[{place}]", one) for place, one in enumerate(given)]


def _attachment(where: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ParseError(
            f'`{where}` is a {_kind(given)}; give {{"name": "a.pdf", "content": b"…"}}'
        )
    content = given.get("content")
    if isinstance(content, bytes | bytearray | memoryview):
        return {**given, "content": b64encode(content).decode()}
    if not isinstance(content, str):
        raise ParseError(f"`{where}.content` is a {_kind(content)}; give bytes, or base64 as text")
    try:
        b64decode(content, validate=True)
    except (NoBase64Error, ValueError):
        raise ParseError(f"`{where}.content` is text, but no base64; give bytes") from None
    return dict(given)


def _moment(given: datetime) -> str:
    if given.tzinfo is None:
        raise ParseError("`send_at` has no time zone; give one, as in datetime.now(UTC)")
    return given.isoformat()


def _kind(given: object) -> str:
    return type(given).__name__
