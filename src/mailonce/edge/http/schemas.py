"""GET /v1/schemas/…: what the bodies that we send look like. It is no secret."""

from typing import Any

from fastapi import APIRouter

from mailonce.core.deliveries.delivery import SCHEMA
from mailonce.core.deliveries.event_schema import event_schema
from mailonce.core.mail.message_schema import SCHEMA as MESSAGE_SCHEMA
from mailonce.core.mail.message_schema import message_schema
from mailonce.edge.http.query import KNOWN_QUERY

router = APIRouter(prefix="/v1/schemas", tags=["routes"], dependencies=KNOWN_QUERY)


@router.get(f"/{SCHEMA}", summary="The schema of a delivered event")
async def show_event_schema() -> dict[str, Any]:
    """JSON Schema of the body that a route without a `mapping` sends."""
    return event_schema()


@router.get(f"/{MESSAGE_SCHEMA}", summary="The schema of a mail that came in")
async def show_message_schema() -> dict[str, Any]:
    """JSON Schema of a message, as inboxes show it and as `message` of an `inbound` event."""
    return message_schema()
