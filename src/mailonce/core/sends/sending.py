"""The contract of a provider's outgoing side: a call is built, made once, and its answer read.

A `Sending` is pure. The ledger asks it for the request (`build`), keeps those bytes, and commits
"in flight"; whoever makes the call adds the credentials (`authorize`) just before the first byte,
and has the answer read (`read_answer`). The outcome says only what is certain:

| outcome    | the provider                                       | then                          |
|------------|----------------------------------------------------|-------------------------------|
| `Accepted` | has it                                             | done                          |
| `NotSent`  | refused it, and would again                        | final; another sender may try |
| `TryAgain` | does not have it, for a reason that passes         | another attempt               |
| `Unknown`  | may have it                                        | settle it, never guess        |

A call that repeats an unknown one under the provider's own key (`native`) proves something only
when it is accepted: that it was refused says nothing of the first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha1
from uuid import UUID

import msgspec
from msgspec import Struct

from mailonce.core.events.event import Event
from mailonce.core.sends.outgoing_mail import OutgoingMail
from mailonce.core.sends.sender import Sender

# The header, and the name in tags and metadata, by which our id of a send comes back.
ID_HEADER = "X-Mailonce-Id"
ID_NAME = "mailonce_id"

_NAMESPACE = UUID("4d6f0c1e-7a55-5d3b-9f0e-6d61696c6f6e")


class Correlation(Struct, frozen=True):
    """What ties a provider's call, lookup and events to a send.

    `uuid` is the same in every attempt, so that a provider's own idempotency key and each event
    lead to the send; a UUID fits the grammar of every field that brings it back.
    """

    send: str
    attempt: int
    uuid: str


def correlation_bytes(workspace: str, send_key: str) -> bytes:
    """Give the sixteen bytes of the UUID of a logical send; the same key always has the same.

    It is version 5 of RFC 9562, as `uuid.uuid5` makes it, in a third of the time.
    """
    name = f"{len(workspace)}|{workspace}|{send_key}".encode()
    digest = bytearray(sha1(_NAMESPACE.bytes + name, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def correlation_uuid(workspace: str, send_key: str) -> str:
    """Write the same as a UUID."""
    return str(UUID(bytes=correlation_bytes(workspace, send_key)))


class HttpRequest(Struct, frozen=True, kw_only=True, tag="http"):
    """A call over HTTP; its frozen form has no credentials."""

    method: str = "POST"
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class SmtpRequest(Struct, frozen=True, kw_only=True, tag="smtp"):
    """A mail over SMTP: envelope and message, with CRLF, before dots are doubled."""

    mail_from: str
    rcpt_to: str
    message: bytes


Frozen = HttpRequest | SmtpRequest
_FROZEN = msgspec.msgpack.Decoder(HttpRequest | SmtpRequest)


def frozen_bytes(request: Frozen) -> bytes:
    """Write a request as the ledger keeps it."""
    return msgspec.msgpack.encode(request)


def read_frozen(kept: bytes) -> Frozen:
    """Read a request that the ledger kept."""
    request: Frozen = _FROZEN.decode(kept)
    return request


class ProviderAnswer(Struct, frozen=True, kw_only=True):
    """What a provider answered; `headers` have lower-case names.

    Not `is_whole`: its body broke off, did not end in time or was too long; status and headers
    stand.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    is_whole: bool = True
    received_ms: int = 0


class Fault(StrEnum):
    """What a provider's refusal blames."""

    # The mail or its recipient: another one may be taken.
    MESSAGE = "message"
    # Credentials, account, domain, quota: it would refuse every mail until an operator acts.
    SENDER = "sender"


class Accepted(Struct, frozen=True, kw_only=True):
    """The provider has the mail; `message_id` is its own, None where it was not told."""

    message_id: str | None
    # What proves it, in a few words without addresses.
    evidence: str


class NotSent(Struct, frozen=True, kw_only=True):
    """The provider refused the mail, and would refuse it again."""

    reason: str
    fault: Fault = Fault.MESSAGE


class TryAgain(Struct, frozen=True, kw_only=True):
    """The provider certainly does not have the mail, and may take it later."""

    reason: str
    retry_after_ms: int | None = None


class Unknown(Struct, frozen=True, kw_only=True):
    """The provider may have the mail, or not.

    `retry_after_ms`: asked again under its own key so much later, it can say.
    """

    reason: str
    retry_after_ms: int | None = None


SendOutcome = Accepted | NotSent | TryAgain | Unknown


class SendFacts(Struct, frozen=True, kw_only=True):
    """What a lookup may know of a send: who, what, and when its first call may have begun."""

    mail_from: str
    recipient: str
    subject: str
    message_id: str
    first_call_ms: int
    now_ms: int


class Found(Struct, frozen=True, kw_only=True):
    """The provider has the mail; `message_id` is its own, None where the lookup does not say."""

    message_id: str | None
    evidence: str


class NotFound(Struct, frozen=True):
    """The lookup does not show the mail, which proves nothing: an index lags, a log is cut."""


LookupOutcome = Found | NotFound | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeKey:
    """A provider's own idempotency.

    Identical bytes may be repeated for `safe_s` after the first call; the provider forgets the
    key after `window_s`, and near its end nobody knows whose clock is right.
    """

    window_s: int
    safe_s: int


Build = Callable[[OutgoingMail, Correlation, Sender], Frozen]
Authorize = Callable[[HttpRequest, Sender, int], HttpRequest]
ReadAnswer = Callable[[ProviderAnswer], SendOutcome]
Lookup = Callable[[Correlation, Sender, SendFacts], HttpRequest | None]
ReadLookup = Callable[[ProviderAnswer, Correlation, SendFacts], LookupOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The outgoing side of one provider: pure functions, and the facts about it.

    `build(mail, correlation, sender)` makes the request for one recipient, with our UUID in the
    fields that come back. `authorize(request, sender, now_ms)` adds the credentials.
    `lookup(correlation, sender, facts)` is None where the sender's options do not allow one; its
    request is authorized like any other. `correlation_of(event)` finds our UUID in an event of this
    provider's webhooks. `check(sender)` gives one sentence that names the setting and its fix, or
    None.
    """

    name: str
    title: str
    docs: str
    build: Build
    # What is promised about duplicates, in one honest sentence for the documents.
    promise: str
    # For SMTP, whose replies the client reads, there is none.
    read_answer: ReadAnswer | None = None
    authorize: Authorize = lambda request, _sender, _now_ms: request
    native: NativeKey | None = None
    lookup: Lookup | None = None
    read_lookup: ReadLookup | None = None
    correlation_of: Callable[[Event], str | None] = lambda _: None
    check: Callable[[Sender], str | None] = lambda _: None
    # Says in one sentence why the provider would refuse a mail with these metadata, or None.
    check_metadata: Callable[[Mapping[str, str]], str | None] = lambda _: None
    # The settings of a sender that it cannot do without.
    needs: tuple[str, ...] = ()
    # What the settings of a sender are in the provider's own words.
    settings: Mapping[str, str] = field(default_factory=dict)
    # What to do at the provider, or in the options, so that an unknown outcome can be settled.
    set_up: str = ""
    # What each of its options is for.
    options: Mapping[str, str] = field(default_factory=dict)
    # The largest request that the provider takes.
    bytes_max: int = 10 << 20
