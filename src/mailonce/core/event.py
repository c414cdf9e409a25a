"""An event: one thing that happened to one message for one recipient, in our words."""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum, StrEnum
from typing import Any

from mailonce.core.frozen import frozen
from mailonce.core.key import Identity


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


class Bounce(StrEnum):
    """The class of a bounce."""

    HARD = "hard"
    SOFT = "soft"
    BLOCKED = "blocked"
    UNDETERMINED = "undetermined"


class Reject(StrEnum):
    """Why a message was rejected before SMTP."""

    SUPPRESSED = "suppressed"
    INVALID = "invalid"
    UNSUBSCRIBED = "unsubscribed"
    POLICY = "policy"
    RENDER = "render"
    QUOTA = "quota"
    OTHER = "other"


_NOTHING: Mapping[str, Any] = {}


@frozen(kw_only=True)
class Event:
    """What a provider said, in our words.

    `message_id` and `recipient` are '' where the provider does not say; `occurred_ms` is the
    provider's own time and only data: it may be missing, absurd or change between copies.
    """

    type: EventType
    identity: Identity
    message_id: str = ""
    recipient: str = ""
    occurred_ms: int | None = None
    bounce: Bounce | None = None
    reject: Reject | None = None
    reason: str | None = None
    # The class of mail (list, group, stream) that an unsubscribe is limited to; '' is all mail.
    stream: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    url: str | None = None
    user_agent: str | None = None
    ip: str | None = None
    machine: bool | None = None
    # A bounce that came after the receiving server had accepted the mail.
    late: bool = False
    # False where the provider names candidates only; such an event never suppresses.
    certain: bool = True
    raw: Any = None


class Recorded(Enum):
    """How one event fared against the ledger."""

    FIRST = "first"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
