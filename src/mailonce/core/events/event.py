"""An event: one thing that happened to one message for one recipient, in our words."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mailonce.core.events.key import Identity


class EventType(StrEnum):
    """The words of the public contract; an unknown word of a provider becomes `OTHER`."""

    ACCEPTED = "accepted"
    SENT = "sent"
    DEFERRED = "deferred"
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    REJECTED = "rejected"
    COMPLAINED = "complained"
    OPENED = "opened"
    CLICKED = "clicked"
    UNSUBSCRIBED = "unsubscribed"
    SUBSCRIBED = "subscribed"
    INBOUND = "inbound"
    OTHER = "other"


# A member of an enum is slow to look up, and every event is asked for.
BOUNCED, OTHER = EventType.BOUNCED, EventType.OTHER


class Bounce(StrEnum):
    """The class of a bounce."""

    HARD = "hard"
    SOFT = "soft"
    BLOCKED = "blocked"
    UNDETERMINED = "undetermined"


class Reject(StrEnum):
    """Why a message was rejected before SMTP."""

    # For now only: the provider may still send it.
    HELD = "held"
    SUPPRESSED = "suppressed"
    INVALID = "invalid"
    UNSUBSCRIBED = "unsubscribed"
    POLICY = "policy"
    RENDER = "render"
    QUOTA = "quota"
    OTHER = "other"


# What a provider's word means: the type of event, and the class of a bounce or a rejection.
Classification = tuple[EventType, Bounce | None, Reject | None]

# An index entry has a limit on each database; a longer id is known by its hash.
MESSAGE_ID_BYTES_MAX = 512
RECIPIENT_BYTES_MAX = 320


class Event(Struct, frozen=True, kw_only=True, gc=False):
    """What a provider said, in our words.

    `message_id` and `recipient` are '' where the provider does not say; `occurred_ms` is the
    provider's own time and only data: it may be missing, absurd or change between copies.
    """

    type: EventType
    identity: Identity
    # The provider's own id of this event, where it gives one.
    provider_event_id: str | None = None
    message_id: str = ""
    recipient: str = ""
    occurred_ms: int | None = None
    bounce: Bounce | None = None
    reject: Reject | None = None
    reason: str | None = None
    # The class of mail (list, group, stream) that an unsubscribe is limited to; '' is all mail.
    stream: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}
    url: str | None = None
    user_agent: str | None = None
    ip: str | None = None
    machine: bool | None = None
    # A bounce that came after the receiving server had accepted the mail.
    late: bool = False
    # False where the provider names candidates only; such an event never suppresses.
    certain: bool = True
    # The mail that came in, as `mailonce.message/1`; its id is then the event's identity.
    message: Mapping[str, Any] | None = None
    # The content of its attachments by their ids, for routes that send it along.
    files: Mapping[str, bytes] = {}
    raw: Any = None


def detail_of(event: Event) -> dict[str, Any]:
    """Gather what the log keeps beside its columns; empty fields are left out."""
    # Written out: a loop over names costs four times as much, for every event.
    detail: dict[str, Any] = {}
    if event.provider_event_id is not None:
        detail["provider_event_id"] = event.provider_event_id
    if event.reason is not None:
        detail["reason"] = event.reason
    if event.url is not None:
        detail["url"] = event.url
    if event.user_agent is not None:
        detail["user_agent"] = event.user_agent
    if event.ip is not None:
        detail["ip"] = event.ip
    if event.machine is not None:
        detail["machine"] = event.machine
    if event.reject is not None:
        detail["reject"] = str(event.reject)
    if event.tags or event.metadata or event.stream:
        _add_senders_words(event, detail)
    if event.message is not None:
        detail["message"] = event.message["id"]
    if event.late:
        detail["late"] = True
    if not event.certain:
        detail["certain"] = False
    return detail


def _add_senders_words(event: Event, detail: dict[str, Any]) -> None:
    if event.tags:
        detail["tags"] = list(event.tags)
    if event.metadata:
        detail["metadata"] = dict(event.metadata)
    if event.stream:
        detail["stream"] = event.stream


def fitted(event: Event) -> Event:
    """Shorten what is too long for an index."""
    if len(event.message_id) <= MESSAGE_ID_BYTES_MAX // 4 and (
        len(event.recipient) <= RECIPIENT_BYTES_MAX // 4
    ):
        return event
    return replace(
        event,
        message_id=_hashed_above(event.message_id, MESSAGE_ID_BYTES_MAX),
        recipient=_hashed_above(event.recipient, RECIPIENT_BYTES_MAX),
    )


def _hashed_above(text: str, bytes_max: int) -> str:
    raw = text.encode()
    return text if len(raw) <= bytes_max else f"sha256:{sha256(raw).hexdigest()}"
