"""GET /v1/messages/{message_id}: what became of a message."""

from typing import Annotated

from fastapi import APIRouter, Path

from mailonce.core.reading.values import text_of
from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import KNOWN_QUERY, TheSource, address_in, parameter
from mailonce.views import messages
from mailonce.views.messages import MessageJson

router = APIRouter(prefix="/v1/messages", tags=["messages"], dependencies=KNOWN_QUERY)


@router.get(
    "/{message_id:path}",
    summary="Show a message",
    description=(
        "Status, facts, counts and timeline for each recipient; the timeline spans the send, the "
        "events and the deliveries of each, and mail in inboxes that answers or bounces it. Where "
        "two accounts know a "
        "message of this id the answer is 409, and `source` says which is meant."
    ),
)
async def show_message(
    service: TheService,
    caller: Reader,
    message_id: Annotated[
        str,
        Path(
            description=(
                "The provider's message id, percent-encoded, with or without its brackets; of a "
                "mail that was sent here also its own Message-ID, or the id of its send; of one "
                "that an inbox took the Message-ID of its header, or our id of it."
            )
        ),
    ],
    source: TheSource,
    recipient: Annotated[
        str | None, parameter("recipient", address_in, "Show this recipient alone.")
    ],
) -> MessageJson:
    return await messages.show_message(
        service.database,
        caller.workspace,
        text_of(message_id) or "",
        routes=service.snapshot.routes,
        senders=service.snapshot.senders,
        down=await service.endpoints_down(),
        source=source,
        recipient=recipient,
    )
