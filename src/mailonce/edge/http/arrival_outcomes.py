"""GET /v1/arrivals/{id}: what became of a webhook, by the id in its answer."""

from fastapi import APIRouter

from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import KNOWN_QUERY
from mailonce.views import arrivals
from mailonce.views.arrivals import ArrivalJson

router = APIRouter(prefix="/v1/arrivals", tags=["events"], dependencies=KNOWN_QUERY)


@router.get("/{arrival_id}", summary="Show an arrival")
async def show_arrival(service: TheService, caller: Reader, arrival_id: str) -> ArrivalJson:
    """What was recorded of a webhook, by the `arrival` of its answer, which providers log.

    Its new events, what it was a copy of, the mail that it brought, and dead letters.
    """
    return await arrivals.show_arrival(service.database, caller.workspace, arrival_id)
