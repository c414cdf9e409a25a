"""A delivery: one event owed to one route, its key, and the bytes that are sent."""

from enum import IntEnum
from hashlib import sha256
from typing import Any, NewType

import orjson

from mailonce.core.event import Event
from mailonce.core.facts import AHEAD_MS_MAX
from mailonce.core.ids import EventId, public
from mailonce.core.key import Key
from mailonce.core.moment import moment

SCHEMA = "mailonce.event/1"

# sha256(identity|route_id): the same on every attempt; in hex it is the X-Idempotency-Key.
DeliveryKey = NewType("DeliveryKey", bytes)


class State(IntEnum):
    """Where a delivery stands; it ends as done or dead."""

    DUE = 0
    LEASED = 1
    DONE = 2
    DEAD = 3


class Lane(IntEnum):
    """First attempts go before retries, and both before redeliveries."""

    FIRST = 0
    RETRY = 1
    REDELIVERY = 2


def key_of(identity: str, route_id: str, reprocessing: str | None = None) -> DeliveryKey:
    """Make the key by which a receiver knows every attempt of one delivery."""
    text = f"{identity}|{route_id}"
    if reprocessing is not None:
        text = f"{text}|{reprocessing}"
    return DeliveryKey(sha256(text.encode()).digest())


def shown_event(
    event: Event,
    *,
    id_: EventId,
    key: Key,
    source: str,
    account: str,
    received_ms: int,
    conflict_with: bytes | None,
) -> dict[str, Any]:
    """Write an event as `mailonce.event/1` has it, in plain words and lists.

    An expression looks at it as JSON: a word of an enumeration or a tuple would be strange to it.
    """
    identity = key.hex()
    received_at = moment(received_ms)
    occurred_ms = event.occurred_ms
    return {
        "schema": SCHEMA,
        "id": public("evt", id_),
        "key": identity,
        "identity": identity,
        "source": source,
        "provider": account.partition("/")[0],
        "type": str(event.type),
        "bounce": None if event.bounce is None else str(event.bounce),
        "reject": None if event.reject is None else str(event.reject),
        "message_id": event.message_id or None,
        "recipient": event.recipient or None,
        "occurred_at": moment(occurred_ms),
        "received_at": received_at,
        "processed_at": received_at,
        "reason": event.reason,
        "stream": event.stream or None,
        "tags": list(event.tags),
        "metadata": dict(event.metadata),
        "url": event.url,
        "user_agent": event.user_agent,
        "ip": event.ip,
        "machine": event.machine,
        "late": event.late,
        "certain": event.certain,
        "suspect": occurred_ms is not None and occurred_ms > received_ms + AHEAD_MS_MAX,
        "conflict_with": None if conflict_with is None else public("evt", conflict_with),
    }


def frozen_body(shown: Any) -> bytes:
    """Give the bytes that are stored once and sent on every attempt."""
    return orjson.dumps(shown)
