"""The body of POST /v1/sends: read at once into records, whatever its attachments weigh."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from mailonce.core import json_text
from mailonce.core.reading.values import address_of, iso_ms_of
from mailonce.core.sends.mail_template import read_reference
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment
from mailonce.core.sends.send_key import SendKey, derived_key, given_key
from mailonce.core.sends.send_request import Recipient, SendPriority, SendRequest
from mailonce.errors import ParseError


class NamedAddress(Struct, forbid_unknown_fields=True):
    """An address, and the name shown beside it."""

    address: str
    name: str = ""


class NewRecipient(Struct, forbid_unknown_fields=True):
    """One of the recipients; its variables replace those of the request."""

    address: str
    name: str = ""
    variables: dict[str, Any] = field(default_factory=dict)


class NewAttachment(Struct, forbid_unknown_fields=True):
    """A file; one with a `content_id` is shown inside the HTML (`cid:…`)."""

    name: str
    content: Annotated[bytes, Meta(description="base64")]
    type: str = "application/octet-stream"
    content_id: str | None = None


def _about(text: str) -> Meta:
    return Meta(description=text)


class NewSend(Struct, forbid_unknown_fields=True, kw_only=True):
    """A mail to send, once."""

    to: Annotated[
        str | NewRecipient | list[str | NewRecipient],
        _about("one recipient, or up to 1,000: each gets a mail of its own"),
    ]
    from_: Annotated[str | NamedAddress, _about("'shop@example.com', or 'Shop <…>'")] = field(
        name="from"
    )
    subject: str | None = None
    text: Annotated[str | None, _about("made of the HTML where it is missing")] = None
    html: str | None = None
    template: Annotated[str | None, _about("its name, or name@3 for a version")] = None
    variables: dict[str, Any] = field(default_factory=dict)
    stream: Annotated[str, _about("the class of mail, as receipts or news")] = ""
    cause_id: Annotated[
        str | None, _about("what causes the mail; makes the key where no Idempotency-Key is given")
    ] = None
    sender: Annotated[str | None, _about("by id or name; default: the first")] = None
    send_at: Annotated[str | None, _about("ISO 8601; not before this time")] = None
    reply_to: str | list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    attachments: list[NewAttachment] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    priority: Annotated[
        SendPriority | None, _about("default: that of the stream, else by the recipients' number")
    ] = None
    unsubscribe: Annotated[
        bool | None, _about("whether the mail has a link to unsubscribe with one click")
    ] = None
    ignore_suppressions: Annotated[
        bool, _about("send to suppressed addresses, too; needs an operator key")
    ] = False


_UNKNOWN = re.compile(r"Object contains unknown field (`[^`]{1,100}`)")
_MISSING = re.compile(r"Object missing required field `([^`]{1,100})`")
_READ = msgspec.json.Decoder(NewSend)


def read_send(body: bytes) -> NewSend:
    """Read a body.

    Raises: ParseError, one sentence that names the field.
    """
    try:
        return _READ.decode(body)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        name = where.rstrip("`").lstrip(".") or "the body"
        if (unknown := _UNKNOWN.fullmatch(what)) is not None:
            known = ", ".join(_names(name))
            place = f"`{name}`" if where else name
            raise ParseError(f"{place} has no field {unknown[1]}; use {known}") from error
        if (missing := _MISSING.fullmatch(what)) is not None:
            field = f"{name}.{missing[1]}" if where else missing[1]
            raise ParseError(f"`{field}` is missing; see /docs") from error
        raise ParseError(f"`{name}` is wrong: {what[:1].lower()}{what[1:]}; see /docs") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"the body is no JSON: {error}; correct it") from error


def _names(place: str) -> list[str]:
    """List the fields that a part of a body has, by where it stands."""
    word = place.partition(".")[0].partition("[")[0]
    parts: Mapping[str, type[Struct]] = {
        "attachments": NewAttachment, "to": NewRecipient, "from": NamedAddress,
    }  # fmt: skip
    return [one.encode_name for one in msgspec.structs.fields(parts.get(word, NewSend))]


def request_of(new: NewSend, key: str | None) -> SendRequest:
    """Make the request; `key` is that of the header, if there is one.

    Raises: ParseError where it has no key, or one of its fields cannot be read.
    """
    # What no database can hold is told here, in the caller's own words.
    free = (new.variables, new.metadata, new.headers, new.cause_id, new.stream)
    if any(free):
        json_text.check_plain([*free])
    name, version = (None, None) if new.template is None else read_reference(new.template)
    several = new.to if isinstance(new.to, list) else (new.to,)
    reply_to = (new.reply_to,) if isinstance(new.reply_to, str) else new.reply_to
    return SendRequest(
        key=_key(new, key, name),
        recipients=tuple(map(_recipient, several)),
        from_=_mailbox(new.from_),
        subject=new.subject,
        text=new.text,
        html=new.html,
        template=name,
        template_version=version,
        variables=new.variables,
        stream=new.stream,
        cause_id=new.cause_id,
        sender=new.sender,
        send_at_ms=_moment(new.send_at),
        reply_to=tuple(map(_mailbox, reply_to)),
        headers=tuple(new.headers.items()),
        attachments=tuple(map(_attachment, new.attachments)),
        tags=tuple(new.tags),
        metadata=new.metadata,
        priority=new.priority,
        unsubscribe=new.unsubscribe,
        ignores_suppressions=new.ignore_suppressions,
    )


def send_schema() -> dict[str, Any]:
    """Write the schema of a body, whole: an operation has no place for parts of its own."""
    [schema], parts = msgspec.json.schema_components([NewSend], ref_template="{name}")
    whole: dict[str, Any] = _inlined(schema, parts)
    return whole


def _inlined(schema: Any, parts: Mapping[str, Any]) -> Any:
    """Put each part in the place of what refers to it."""
    if isinstance(schema, list):
        return [_inlined(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[schema["$ref"]], parts)
    return {name: _inlined(value, parts) for name, value in schema.items()}


def _key(new: NewSend, key: str | None, template: str | None) -> SendKey:
    if key is not None:
        return given_key(key)
    if not new.cause_id:
        raise ParseError(
            "this mail has no key: send `Idempotency-Key`, made before the first try, or `cause_id`"
        )
    return derived_key(cause_id=new.cause_id, stream=new.stream, template=template or "")


def _recipient(given: str | NewRecipient) -> Recipient:
    if isinstance(given, str):
        mailbox = _mailbox(given)
        return Recipient(mailbox, address_of(mailbox.address))
    return Recipient(Mailbox(given.address, given.name), address_of(given.address), given.variables)


def _mailbox(given: str | NamedAddress) -> Mailbox:
    """Read an address, alone or as `Name <address>`."""
    if isinstance(given, NamedAddress):
        return Mailbox(given.address, given.name)
    text = given.strip(" ")
    if not text.endswith(">"):
        return Mailbox(text)
    name, _, address = text[:-1].rpartition("<")
    name = name.strip(" ")
    if len(name) >= 2 and name[0] == name[-1] == '"':
        name = name[1:-1].replace('\\"', '"')
    return Mailbox(address, name)


def _attachment(given: NewAttachment) -> OutgoingAttachment:
    return OutgoingAttachment(
        name=given.name, type=given.type, content=given.content, content_id=given.content_id
    )


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    ms = iso_ms_of(text)
    if ms is None:
        raise ParseError(f"`send_at` is {text[:40]!r}; write a time such as 2026-01-31T12:00:00Z")
    return ms
