"""GET /v1/audit: who changed what."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from mailonce.edge.http.access import Reader, TheService, operation_of
from mailonce.edge.http.query import KNOWN_QUERY, Since, ThePage, Until, parameter, text_in
from mailonce.views import audit
from mailonce.views.audit import AuditJson
from mailonce.views.paging import Page

router = APIRouter(prefix="/v1", tags=["operation"], dependencies=KNOWN_QUERY)

By = Annotated[
    str | None, parameter("by", text_in, "A key's name or id, or `local:USER`, or a part of it.")
]
Object = Annotated[
    str | None, parameter("object", text_in, "A name, an address or an id, or a part of it.")
]


@router.get(
    "/audit",
    summary="List changes",
    description=(
        "Who changed what, newest first: sources, routes, senders, keys, suppressions, dead "
        "letters, redeliveries, inboxes, sends and templates. Entries are kept as long as facts."
    ),
)
async def list_changes(
    request: Request,
    service: TheService,
    caller: Reader,
    page: ThePage,
    by: By,
    object: Object,  # noqa: A002 - as the parameter is called
    since: Since,
    until: Until,
) -> Page[AuditJson]:
    return await audit.list_changes(
        service.database,
        caller.workspace,
        page,
        words=_words_of(request),
        by=by,
        object_=object,
        since_ms=since,
        until_ms=until,
    )


def _words_of(request: Request) -> dict[str, str]:
    """Give the summary of each operation, as it stands in the API's description."""
    return {
        operation_of(route): route.summary or ""
        for route in request.app.routes
        if isinstance(route, APIRoute)
    }
