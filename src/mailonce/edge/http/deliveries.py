"""/v1/deliveries and /v1/undelivered: what was sent, and what was not."""

from typing import Annotated

from fastapi import APIRouter, Query

from mailonce.core.deliveries.rerun import RerunKind
from mailonce.core.ids import private
from mailonce.core.query import DeliveryFilter
from mailonce.core.reading.values import text_of
from mailonce.core.work.states import State
from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import (
    KNOWN_QUERY,
    Since,
    ThePage,
    TheRoute,
    Until,
    address_in,
    parameter,
)
from mailonce.errors import ParseError
from mailonce.views import deliveries
from mailonce.views.deliveries import DeliveryJson, UndeliveredJson
from mailonce.views.paging import Page

router = APIRouter(prefix="/v1", tags=["deliveries"], dependencies=KNOWN_QUERY)

AboutAddress = Annotated[
    str | None,
    parameter("recipient", address_in, "Of the newest 1,000 events about this address."),
]
AboutMessage = Annotated[
    str | None, Query(description="Of the events about this message, by its provider's id.")
]
STATES = {state.public_name: state for state in State}
OPEN_STATES = [state.public_name for state in State if state is not State.DONE]


@router.get("/deliveries", summary="List deliveries")
async def list_deliveries(
    service: TheService,
    caller: Reader,
    page: ThePage,
    route: TheRoute,
    since: Since,
    until: Until,
    recipient: AboutAddress,
    state: Annotated[
        str | None,
        Query(description="Their state.", json_schema_extra={"enum": list(STATES)}),
    ] = None,
    event: Annotated[str | None, Query(description="Of this event, by its id.")] = None,
    message_id: AboutMessage = None,
) -> Page[DeliveryJson]:
    """One event for one route each, by the event's receipt, newest first."""
    query = DeliveryFilter(
        route=await service.manage.routes.id_of(caller, route),
        state=None if state is None else state_of(state),
        event=None if event is None else private("evt", event),
        recipient=recipient,
        message_id=text_of(message_id),
        since_ms=since,
        until_ms=until,
    )
    return await deliveries.list_deliveries(
        service.database,
        caller.workspace,
        service.snapshot.routes,
        query,
        page,
        down=await service.endpoints_down(),
    )


@router.get("/deliveries/{delivery_id}", summary="Show a delivery")
async def show_delivery(service: TheService, caller: Reader, delivery_id: str) -> DeliveryJson:
    """With the outcome of each attempt, and the bytes that are sent. By id or by key.

    A reader's key gets the cleaned text of a mail, and no body that a mapping made.
    """
    routes, down = service.snapshot.routes, await service.endpoints_down()
    return await deliveries.show_delivery(service.database, caller, routes, delivery_id, down=down)


@router.get("/undelivered", summary="List what is not delivered")
async def list_undelivered(
    service: TheService,
    caller: Reader,
    page: ThePage,
    route: TheRoute,
    since: Since,
    until: Until,
    recipient: AboutAddress,
    state: Annotated[
        str | None,
        Query(description="Their state.", json_schema_extra={"enum": OPEN_STATES}),
    ] = None,
    message_id: AboutMessage = None,
    redelivery: Annotated[
        str | None, Query(description="That this redelivery made due, by its id.")
    ] = None,
    reprocessing: Annotated[
        str | None, Query(description="That this reprocessing made, by its id.")
    ] = None,
) -> UndeliveredJson:
    """Everything pending, in progress or failed, oldest first, with the sums by route."""
    if state is not None and state not in OPEN_STATES:
        raise ParseError(f"`state` is {state[:40]!r}; use one of {', '.join(OPEN_STATES)}")
    query = DeliveryFilter(
        route=await service.manage.routes.id_of(caller, route),
        state=None if state is None else state_of(state),
        recipient=recipient,
        message_id=text_of(message_id),
        redelivery=_rerun_id(RerunKind.REDELIVERY, redelivery),
        reprocessing=_rerun_id(RerunKind.REPROCESSING, reprocessing),
        since_ms=since,
        until_ms=until,
    )
    routes, down = service.snapshot.routes, await service.endpoints_down()
    return await deliveries.list_undelivered(
        service.database, caller.workspace, routes, page, query=query, down=down
    )


def _rerun_id(kind: RerunKind, text: str | None) -> bytes | None:
    return None if text is None else private(kind.prefix, text)


def state_of(word: str) -> State:
    """Read a state's name.

    Raises: ParseError where it is none.
    """
    if word not in STATES:
        raise ParseError(f"`state` is {word[:40]!r}; use one of {', '.join(STATES)}")
    return STATES[word]
