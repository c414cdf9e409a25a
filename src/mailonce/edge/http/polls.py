"""Polled routes: read events after a cursor, and acknowledge them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.access import Caller
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.edge.http.access import Authenticate, Reader, TheService, Writer
from mailonce.edge.http.query import KNOWN_QUERY, NUMBER_MAX, ThePage, number_of, seconds_of
from mailonce.errors import AccessError, RefusedError
from mailonce.queue.poll import WAIT_S_MAX
from mailonce.service import Service
from mailonce.views.polls import polled
from mailonce.views.reader_body import is_limited

router = APIRouter(prefix="/v1/routes", tags=["routes"], dependencies=KNOWN_QUERY)


class Acknowledgement(BaseModel):
    """How far the consumer has read."""

    model_config = ConfigDict(extra="forbid")

    cursor: int = Field(
        ge=0, le=NUMBER_MAX, description="`cursor` of the last event that was dealt with"
    )


class PolledEvents(BaseModel):
    """Events in the route's order, and the cursor after the last of them."""

    data: list[dict[str, Any]]
    cursor: int


@router.get(
    "/{route_id}/events",
    summary="Poll a route",
    response_model=PolledEvents,
    description="Events of a route of kind `poll`, in its order; without `after`, those that were "
    "not acknowledged.",
)
async def poll(
    service: TheService,
    caller: Reader,
    authenticate: Authenticate,
    route_id: str,
    page: ThePage,
    after: Annotated[
        str | None,
        Query(
            description="`cursor` of the last answer; leave it out to begin.",
            json_schema_extra={"type": "integer", "minimum": 0},
        ),
    ] = None,
    wait: Annotated[
        str,
        Query(
            description="Seconds to wait where there is nothing yet.",
            json_schema_extra={"type": "number", "minimum": 0, "maximum": WAIT_S_MAX},
        ),
    ] = "0",
) -> Response:
    route = await _polled(service, caller, route_id)
    if is_limited(caller) and route.may_map_mail:
        raise AccessError(
            f"route {route.name!r} makes bodies of its own of mail; poll it with an operator key"
        )
    events = await service.polls.read(
        route.id,
        workspace=caller.workspace,
        after=None if after is None else number_of("after", after),
        limit=page.limit,
        wait_s=seconds_of("wait", wait, most=WAIT_S_MAX),
    )
    await authenticate()
    return Response(await polled(caller, events), media_type="application/json")


@router.post("/{route_id}/acknowledgements", summary="Acknowledge what was polled")
async def acknowledge(
    service: TheService, caller: Writer, route_id: str, done: Acknowledgement
) -> dict[str, Any]:
    """Everything up to the cursor counts as delivered and is not given again."""
    route = await _polled(service, caller, route_id)
    mark = await service.polls.acknowledge(route.id, done.cursor)
    return {"acknowledged": mark.acknowledged, "last": mark.seq}


async def _polled(service: Service, caller: Caller, id_or_name: str) -> Route:
    route = await service.manage.routes.find(caller, id_or_name)
    if route.kind is not RouteKind.POLL:
        raise RefusedError(
            f"route {route.name!r} is of kind {route.kind.value}; make one of kind poll to poll it"
        )
    if route.off is not None:
        raise RefusedError(f"route {route.name!r} is switched off; switch it on to poll it")
    return route
