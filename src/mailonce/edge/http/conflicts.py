"""GET /v1/conflicts and GET /v1/refusals: contradicting copies, and what was refused."""

from fastapi import APIRouter

from mailonce.core.query import ConflictFilter
from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import KNOWN_QUERY, Since, ThePage, TheSource, Until
from mailonce.views import conflicts, refusals
from mailonce.views.conflicts import ConflictJson
from mailonce.views.paging import Page
from mailonce.views.refusals import RefusalJson

router = APIRouter(prefix="/v1", tags=["conflicts"], dependencies=KNOWN_QUERY)


@router.get(
    "/conflicts",
    summary="List conflicts",
    description=(
        "Other content that came under a known key, newest first, with the fields that differ. "
        "Where the provider signs the body, it is an event of its own (`other_event`), which takes "
        "effect and is delivered, but is not counted; otherwise it changes nothing. "
        "A page holds at most 100."
    ),
)
async def list_conflicts(
    service: TheService,
    caller: Reader,
    page: ThePage,
    source: TheSource,
    since: Since,
    until: Until,
) -> Page[ConflictJson]:
    query = ConflictFilter(source=source, since_ms=since, until_ms=until)
    return await conflicts.list_conflicts(service.database, caller.workspace, page, query)


@router.get(
    "/refusals",
    summary="List refusals",
    description=(
        "What was refused (a wrong signature and the like), counted by reason and minute, "
        "newest first, with one sample each."
    ),
)
async def list_refusals(
    service: TheService,
    caller: Reader,
    page: ThePage,
    source: TheSource,
    since: Since,
    until: Until,
) -> Page[RefusalJson]:
    return await refusals.list_refusals(
        service.database,
        caller.workspace,
        page,
        source=source,
        since_ms=since,
        until_ms=until,
        variables=service.source_variables,
        is_admin=caller.is_admin,
    )
