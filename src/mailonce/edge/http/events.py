"""GET /v1/events: the log."""

from typing import Annotated

from fastapi import APIRouter, Query

from mailonce.core.query import EventFilter
from mailonce.core.reading.values import text_of
from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import (
    FLAG,
    KNOWN_QUERY,
    Since,
    ThePage,
    TheRecipient,
    TheSource,
    TheType,
    Until,
    flag_of,
)
from mailonce.views import events
from mailonce.views.events import EventJson
from mailonce.views.paging import Page
from mailonce.views.reader_body import is_limited

router = APIRouter(prefix="/v1/events", tags=["events"], dependencies=KNOWN_QUERY)


@router.get("", summary="List events")
async def list_events(
    service: TheService,
    caller: Reader,
    page: ThePage,
    type_: TheType,
    since: Since,
    until: Until,
    source: TheSource,
    recipient: TheRecipient,
    message_id: Annotated[str | None, Query(description="The provider's message id.")] = None,
    raw: Annotated[
        str | None,
        Query(description="Add what the provider sent; pages are smaller.", json_schema_extra=FLAG),
    ] = None,
) -> Page[EventJson]:
    """Events of every source, newest first, each once however many copies arrived."""
    query = EventFilter(
        source=source,
        type=type_,
        recipient=recipient,
        message_id=text_of(message_id),
        since_ms=since,
        until_ms=until,
    )
    return await events.list_events(
        service.database,
        caller.workspace,
        query,
        page,
        raw=flag_of("raw", raw) or False,
        whole=not is_limited(caller),
    )


@router.get("/{event_id}", summary="Show an event")
async def show_event(service: TheService, caller: Reader, event_id: str) -> EventJson:
    """One event, with its copies and with `raw`, the element that the provider sent.

    An `inbound` event has its `message`, where an inbox has the mail.
    """
    return await events.show_event(
        service.database, caller.workspace, event_id, whole=not is_limited(caller)
    )
