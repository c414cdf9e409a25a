"""Consumptions over the API: who got which artifact, and what became of it."""

from typing import Annotated

from fastapi import APIRouter, Query

from mailonce.core.expectations.consumption import ConsumptionState
from mailonce.core.ids import private
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.query import KNOWN_QUERY, ThePage, word_of
from mailonce.inbox.expectations.consume import release
from mailonce.inbox.expectations.expectation_parts import CONSUMPTION_PREFIX
from mailonce.views.expectation_pages import list_consumptions
from mailonce.views.expectations import ConsumptionJson, consumption_json
from mailonce.views.paging import Page

router = APIRouter(prefix="/v1/consumptions", tags=["expectations"], dependencies=KNOWN_QUERY)

STATES = {"enum": [one.value for one in ConsumptionState]}


@router.get("", summary="List consumptions")
async def list_all(
    service: TheService,
    caller: Reader,
    page: ThePage,
    state: Annotated[str | None, Query(json_schema_extra=STATES)] = None,
) -> Page[ConsumptionJson]:
    """The newest first; `unconfirmed` are those whose lease ended without a word."""
    wanted = word_of(ConsumptionState, "state", state)
    now_ms = await service.expectations.parts.now_ms()
    return await list_consumptions(
        service.database, caller.workspace, page, state=wanted, now_ms=now_ms
    )


@router.post("/{consumption}/release", summary="Let others have an artifact")
async def release_artifact(
    service: TheService, caller: Writer, consumption: str
) -> ConsumptionJson:
    """Only a person knows that it was not used; whoever had it can confirm it no more."""
    parts = service.expectations.parts
    released = await release(parts, caller, private(CONSUMPTION_PREFIX, consumption))
    return consumption_json(released, now_ms=await parts.now_ms())
