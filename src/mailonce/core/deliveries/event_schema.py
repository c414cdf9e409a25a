"""The JSON Schema of `mailonce.event/1`, the default body of a delivery."""

from typing import Any

from mailonce.core.deliveries.delivery import SCHEMA
from mailonce.core.events.event import Bounce, EventType, Reject

_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_TIME = {"type": "string", "format": "date-time"}
_MAYBE_TIME = {"type": ["string", "null"], "format": "date-time"}
_KEY = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_EVENT_ID = "^evt_[0-9a-f]{32}$"


def event_schema() -> dict[str, Any]:
    """Write the schema. Fields may be added to it; none is taken away or changes its meaning."""
    fields = {
        "schema": {"const": SCHEMA},
        "id": _with({"type": "string", "pattern": _EVENT_ID}, "The event's id."),
        "key": _with(_KEY, "The key by which copies of the event are recognised."),
        "identity": _with(
            {**_TEXT, "minLength": 1},
            "X-Idempotency-Key is the hex SHA-256 of this, a bar and `route_id`.",
        ),
        "source": _with(_TEXT, "The id of the source that it came through."),
        "provider": _with(_TEXT, "The mail service."),
        "provider_event_id": _with(
            _MAYBE_TEXT, "The mail service's own id of the event, as its first copy had it."
        ),
        "type": _with({"enum": [str(type_) for type_ in EventType]}, "What happened."),
        "bounce": _with(_maybe(Bounce), "The class of a bounce."),
        "reject": _with(_maybe(Reject), "Why it was rejected before SMTP."),
        "message_id": _with(_MAYBE_TEXT, "The provider's id of the message."),
        "recipient": _with(_MAYBE_TEXT, "The recipient's address."),
        "occurred_at": _with(_MAYBE_TIME, "The provider's own time; it may be absurd."),
        "received_at": _with(_TIME, "When it reached us."),
        "processed_at": _with(
            _MAYBE_TIME,
            "When the last delivery or handler of the event was done; null until then, as it is in "
            "what is delivered.",
        ),
        "reason": _with(_MAYBE_TEXT, "The provider's words for why."),
        "stream": _with(_MAYBE_TEXT, "The class of mail that an unsubscribe is limited to."),
        "tags": _with({"type": "array", "items": _TEXT}, "The sender's tags."),
        "metadata": _with({"type": "object"}, "The sender's own fields."),
        "url": _with(_MAYBE_TEXT, "The link that was clicked."),
        "user_agent": _with(_MAYBE_TEXT, "Of who opened or clicked."),
        "ip": _with(_MAYBE_TEXT, "Of who opened or clicked."),
        "machine": _with({"type": ["boolean", "null"]}, "Opened by a machine, if that is known."),
        "late": _with({"type": "boolean"}, "A bounce after the mail had been accepted."),
        "certain": _with(
            {"type": "boolean"}, "False where the provider names candidates for the recipient."
        ),
        "suspect": _with({"type": "boolean"}, "Its own time is more than a day ahead."),
        "conflict_with": _with(
            {"type": ["string", "null"], "pattern": _EVENT_ID},
            "The event that came first under the same key, with other content.",
        ),
    }
    added = {
        "message": _with(
            {"type": "object"},
            "The mail that came in, as `mailonce.message/1`; of type `inbound` alone.",
        ),
        "route_id": _with(
            _TEXT, "The route that it is sent to, also in X-Mailonce-Route; not in lists of events."
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:mailonce:schema:mailonce.event:1",
        "title": SCHEMA,
        "description": "One thing that happened to one message for one recipient.",
        "type": "object",
        "properties": {**fields, **added},
        "required": list(fields),
        # A later version of the same schema may say more.
        "additionalProperties": True,
    }


def _maybe(words: type[Bounce] | type[Reject]) -> dict[str, Any]:
    return {"enum": [*(str(word) for word in words), None]}


def _with(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}
