"""A mail on its way in, as a door or a provider's hook hands it over.

The envelope decides which inboxes get it; headers never do. Some providers hand over the mail's own
bytes (MIME), others only fields that they read from it, and some only where to fetch it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, assert_never

import msgspec
from msgspec import Struct

# How an envelope is known, from the most to the least trustworthy.
EnvelopeOrigin = Literal["smtp", "provider", "header", "absent"]
# The results of RFC 8601; whatever else a provider says is "unknown".
AuthenticationResult = Literal[
    "pass", "fail", "softfail", "neutral", "none", "temperror", "permerror", "unknown"
]


class MailEnvelope(Struct, frozen=True, kw_only=True, gc=False):
    """From whom and to whom a mail was sent, as the transport said, not the headers."""

    # '' is the null sender of bounces; None where it is unknown.
    mail_from: str | None = None
    # The addresses that were matched, as they were written.
    recipients: tuple[str, ...]
    origin: EnvelopeOrigin
    helo: str | None = None
    client_ip: str | None = None
    # The TLS version of the connection, such as "TLSv1.3"; None where it was plain or is unknown.
    tls: str | None = None
    # The user that logged in to the SMTP door.
    user: str | None = None


class AuthenticationCheck(Struct, frozen=True, kw_only=True, gc=False):
    """The result of one check, and for which domain it was made."""

    result: AuthenticationResult
    domain: str | None = None
    detail: str | None = None


class Authentication(Struct, frozen=True, kw_only=True, gc=False):
    """What is known about who sent a mail; None where nobody checked."""

    spf: AuthenticationCheck | None = None
    dkim: tuple[AuthenticationCheck, ...] = ()
    dmarc: AuthenticationCheck | None = None
    arc: AuthenticationCheck | None = None
    # Whose word it is: the provider's that handed the mail over, that of a mail server which the
    # settings trust (its name is in `server`), or our own.
    checked_by: Literal["provider", "server", "self"] = "provider"
    server: str | None = None


class SpamVerdict(Struct, frozen=True, kw_only=True, gc=False):
    """What a provider's filters said of a mail."""

    is_spam: bool | None = None
    score: float | None = None
    engine: str | None = None
    has_virus: bool | None = None


class AddressField(Struct, frozen=True, gc=False):
    """One mailbox of a header: an address, and the name that stands beside it."""

    address: str
    name: str | None = None


class FieldAttachment(Struct, frozen=True, kw_only=True, gc=False):
    """An attachment that a provider hands over apart from the mail's bytes."""

    name: str | None
    type: str
    content: bytes
    content_id: str | None = None
    is_inline: bool = False
    # The provider names it, but its bytes could not be had; `content` is empty.
    is_missing: bool = False


class MimeContent(Struct, frozen=True, gc=False):
    """The mail's own bytes."""

    raw: bytes


class FieldsContent(Struct, frozen=True, kw_only=True, gc=False):
    """What a provider read from a mail whose bytes it does not hand over."""

    # In the order of the mail, repeats kept; empty where the provider hands over none.
    headers: tuple[tuple[str, str], ...] = ()
    message_id: str | None = None
    from_: tuple[AddressField, ...] = ()
    to: tuple[AddressField, ...] = ()
    cc: tuple[AddressField, ...] = ()
    reply_to: tuple[AddressField, ...] = ()
    subject: str | None = None
    # As the sender wrote it.
    date: str | None = None
    text: str | None = None
    # The provider made `text` from the HTML.
    is_text_derived: bool = False
    html: str | None = None
    # The reply without its quotation, where the provider cut it.
    reply_text: str | None = None
    attachments: tuple[FieldAttachment, ...] = ()


class FetchContent(Struct, frozen=True, kw_only=True, gc=False):
    """Where the mail can be fetched from; the provider's file knows how, and the host is pinned.

    `what` names the provider's own way (such as "resend.email"), `arguments` what it needs.
    """

    what: str
    arguments: Mapping[str, Any]


MailContent = MimeContent | FieldsContent | FetchContent


class ContentFormat(StrEnum):
    """In which form a mail's content is stored."""

    MIME = "mime"
    FIELDS = "fields"
    FETCH = "fetch"


def stored_content(content: MailContent) -> tuple[ContentFormat, bytes]:
    """Give the bytes that are kept of a mail; equal content makes equal bytes."""
    match content:
        case MimeContent(raw=raw):
            return ContentFormat.MIME, raw
        case FieldsContent():
            return ContentFormat.FIELDS, msgspec.json.encode(content)
        case FetchContent():
            return ContentFormat.FETCH, msgspec.json.encode(content, order="sorted")
        case _:
            assert_never(content)


def read_content(format_: ContentFormat, stored: bytes) -> MailContent:
    """Read what `stored_content` wrote."""
    match format_:
        case ContentFormat.MIME:
            return MimeContent(stored)
        case ContentFormat.FIELDS:
            return msgspec.json.decode(stored, type=FieldsContent)
        case ContentFormat.FETCH:
            return msgspec.json.decode(stored, type=FetchContent)
        case _:
            assert_never(format_)


class MailFacts(Struct, frozen=True, kw_only=True, gc=False):
    """What is known of a mail beside its content."""

    envelope: MailEnvelope
    # The provider's own id of this mail, equal over its retries; None where it gives none.
    delivery_id: str | None = None
    authentication: Authentication | None = None
    spam: SpamVerdict | None = None
    # Whether the proof of the hook covers the mail itself.
    is_signed: bool = True


class IncomingMail(MailFacts, frozen=True, kw_only=True, gc=False):
    """One mail for one or more recipients."""

    content: MailContent

    @property
    def facts(self) -> MailFacts:
        """All but the content."""
        return MailFacts(
            envelope=self.envelope,
            delivery_id=self.delivery_id,
            authentication=self.authentication,
            spam=self.spam,
            is_signed=self.is_signed,
        )


def stored_facts(facts: MailFacts) -> bytes:
    """Give the bytes that are kept of what is known of a mail."""
    return msgspec.json.encode(facts)


def with_authentication(stored: bytes, result: Authentication | None) -> bytes:
    """Give stored facts with what is known about the sender."""
    return stored_facts(msgspec.structs.replace(read_facts(stored), authentication=result))


def read_facts(stored: bytes) -> MailFacts:
    """Read what `stored_facts` wrote."""
    return msgspec.json.decode(stored, type=MailFacts)
