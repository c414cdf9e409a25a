"""GET /v1/stats: counts by source, type and day."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from mailonce.core.query import CountFilter
from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import (
    KNOWN_QUERY,
    NUMBER,
    TheSource,
    TheType,
    day_in,
    parameter,
    read_limit,
    read_page,
)
from mailonce.views import stats
from mailonce.views.paging import LIMIT_MAX, Page
from mailonce.views.stats import StatJson

router = APIRouter(prefix="/v1/stats", tags=["stats"], dependencies=KNOWN_QUERY)

DAY: dict[str, Any] = {"format": "date"}
SinceDay = Annotated[
    int | None, parameter("since", day_in, "On this day of receipt (UTC) or later.", DAY)
]
UntilDay = Annotated[int | None, parameter("until", day_in, "Before this day.", DAY)]


@router.get(
    "",
    summary="Count events",
    description=(
        "First events by source, type and day of receipt (UTC), newest day first; copies are "
        "not counted, nor are events of other content under a known key (GET /v1/conflicts). "
        "Counts stay when the log is pruned. `since` and `until` are days; a time other than "
        "midnight (UTC) is refused."
    ),
)
async def list_stats(
    service: TheService,
    caller: Reader,
    type_: TheType,
    since: SinceDay,
    until: UntilDay,
    source: TheSource,
    # A sum over half a list would mislead: a page is as large as it may be.
    limit: Annotated[str, Query(description="How many at most.", json_schema_extra=NUMBER)] = str(
        LIMIT_MAX
    ),
    cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
) -> Page[StatJson]:
    page = await read_page(await read_limit(limit), cursor)
    query = CountFilter(
        source=source,
        type=type_,
        since_day=since,
        until_day=until,
    )
    return await stats.list_stats(service.database, caller.workspace, query, page)
