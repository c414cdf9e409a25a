"""A delivery: one event owed to one route, its key, and the bytes that are sent."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import orjson

from mailonce.core.events.event import Event, detail_of
from mailonce.core.events.facts import AHEAD_MS_MAX
from mailonce.core.events.key import Key
from mailonce.core.ids import EventId, public
from mailonce.core.moment import moment
from mailonce.core.work.states import State, WorkKey
from mailonce.errors import MissingError

SCHEMA = "mailonce.event/1"
# The header that names a delivery's route: with the event's identity it makes the key.
ROUTE_HEADER = "x-mailonce-route"
# What stands in the place of a body that its route could not make.
UNROUTABLE = "mailonce.unroutable/1"


def key_of(identity: str, route_id: str, reprocessing: str | None = None) -> WorkKey:
    """Make the key by which a receiver knows every attempt of one delivery."""
    text = f"{identity}|{route_id}"
    if reprocessing is not None:
        text = f"{text}|{reprocessing}"
    return WorkKey(sha256(text.encode()).digest())


def delivery_id(key: bytes) -> str:
    """Write a delivery's id as users see it: its key is its name."""
    return f"dlv_{key.hex()}"


def delivery_key_of(text: str) -> WorkKey:
    """Read a delivery's public id, or its bare key.

    Raises: MissingError where it cannot be one of ours.
    """
    try:
        raw = bytes.fromhex(text.removeprefix("dlv_"))
    except ValueError:
        raw = b""
    if len(raw) != sha256().digest_size:
        raise MissingError(f"{text[:80]!r} is not an id of the form dlv_…; see GET /v1/deliveries")
    return WorkKey(raw)


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
    fields = shown(
        id_=id_,
        key=key,
        source=source,
        account=account,
        type_=str(event.type),
        bounce=None if event.bounce is None else str(event.bounce),
        message_id=event.message_id,
        recipient=event.recipient,
        occurred_ms=event.occurred_ms,
        received_ms=received_ms,
        conflict_with=conflict_with,
        detail=detail_of(event),
    )
    return fields if event.message is None else fields | {"message": event.message}


def identity_of(event: Event, key: Key) -> str:
    """Say by what a receiver knows an event: a mail by our id of it, any other by its key."""
    return key.hex() if event.message is None else str(event.message["id"])


def processed_ms(received_ms: int, owed: Iterable[tuple[State, int | None]]) -> int | None:
    """Say when the last delivery or handler of an event was done; None until all are.

    Where nothing was owed, that is the moment of its receipt, when all else took effect.
    """
    done_ms = received_ms
    for state, ended_ms in owed:
        if state is not State.DONE or ended_ms is None:
            return None
        done_ms = max(done_ms, ended_ms)
    return done_ms


def shown(
    *,
    id_: EventId,
    key: Key,
    source: str,
    account: str,
    type_: str,
    bounce: str | None,
    message_id: str,
    recipient: str,
    occurred_ms: int | None,
    received_ms: int,
    conflict_with: bytes | None,
    detail: Mapping[str, Any],
) -> dict[str, Any]:
    """Write what the log has of an event in the one shape that lists and deliveries share."""
    field = detail.get
    return {
        "schema": SCHEMA,
        "id": public("evt", id_),
        "key": key.hex(),
        "identity": field("message") or key.hex(),
        "source": source,
        "provider": account.partition("/")[0],
        "provider_event_id": field("provider_event_id"),
        "type": type_,
        "bounce": bounce,
        "reject": field("reject"),
        "message_id": message_id or None,
        "recipient": recipient or None,
        "occurred_at": moment(occurred_ms),
        "received_at": moment(received_ms),
        # Known only when it is read later: here it is still pending.
        "processed_at": None,
        "reason": field("reason"),
        "stream": field("stream"),
        "tags": field("tags", []),
        "metadata": field("metadata", {}),
        "url": field("url"),
        "user_agent": field("user_agent"),
        "ip": field("ip"),
        "machine": field("machine"),
        "late": field("late", False),
        "certain": field("certain", True),
        "suspect": is_suspect(occurred_ms, received_ms),
        "conflict_with": None if conflict_with is None else public("evt", conflict_with),
    }


def is_suspect(occurred_ms: int | None, received_ms: int) -> bool:
    """Say whether an event's own time is too far ahead of its receipt to be believed."""
    return occurred_ms is not None and occurred_ms > received_ms + AHEAD_MS_MAX


def frozen_body(shown: Any) -> bytes:
    """Give the bytes that are stored once and sent on every attempt."""
    return orjson.dumps(shown)


def plain_body(shown: Mapping[str, Any], route_id: str) -> bytes:
    """Freeze an event as it is for one route.

    With `identity` and `route_id` a receiver can make the delivery's key itself. That is why each
    route has bytes of its own.
    """
    return frozen_body({**shown, "route_id": route_id})


def unroutable_body(shown: Mapping[str, Any], route_id: str, reason: str) -> bytes:
    """Make the body that stands in where a route could make none of an event."""
    body = {"schema": UNROUTABLE, "reason": reason, "id": shown["id"], "route_id": route_id}
    return frozen_body(body)


def unroutable_reason(body: bytes) -> str | None:
    """Say why a route could make no body; None where it could."""
    if not body.startswith(_UNROUTABLE_START):
        return None
    return str(orjson.loads(body).get("reason"))


_UNROUTABLE_START = orjson.dumps({"schema": UNROUTABLE})[:-1]
