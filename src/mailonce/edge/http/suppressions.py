"""/v1/suppressions: which addresses must not be sent mail."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.reading.values import text_of
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.query import (
    FLAG,
    KNOWN_QUERY,
    Since,
    TheCause,
    ThePage,
    Until,
    address_in,
    flag_of,
)
from mailonce.manage.audit import give_reason
from mailonce.views import suppressions
from mailonce.views.paging import Page
from mailonce.views.suppressions import SuppressionJson

router = APIRouter(prefix="/v1/suppressions", tags=["suppressions"], dependencies=KNOWN_QUERY)

TheAddress = Annotated[str, Path(description="An email address; in a URL, percent-encoded.")]


class ManualSuppression(BaseModel):
    """A suppression that a person sets."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[
        str | None, Field(max_length=500, description="Shown with the suppression.")
    ] = None
    stream: Annotated[
        str, Field(max_length=200, description="A class of mail; empty: all mail.")
    ] = ""


@router.get(
    "",
    summary="List suppressions",
    description=(
        "Addresses that were ever suppressed or lifted, by address. `since` and `until` go by when "
        "one was suppressed, or lifted where it is not. With a filter, a page may be shorter than "
        "its limit while more follow."
    ),
)
async def list_suppressions(
    service: TheService,
    caller: Reader,
    page: ThePage,
    since: Since,
    until: Until,
    suppressed: Annotated[
        str | None,
        Query(description="Those that are, or are not, suppressed now.", json_schema_extra=FLAG),
    ] = None,
) -> Page[SuppressionJson]:
    return await suppressions.list_suppressions(
        service.database,
        caller.workspace,
        page,
        suppressed=flag_of("suppressed", suppressed),
        since_ms=since,
        until_ms=until,
    )


@router.get("/{address:path}", summary="Show a suppression")
async def show_suppression(
    service: TheService, caller: Reader, address: TheAddress
) -> SuppressionJson:
    """Whether an address is suppressed now, by which causes, and all lifts so far."""
    return await suppressions.show_suppression(
        service.database, caller.workspace, _address(address)
    )


@router.put("/{address:path}", summary="Suppress an address")
async def suppress(
    service: TheService,
    caller: Writer,
    address: TheAddress,
    manual: ManualSuppression | None = None,
) -> SuppressionJson:
    """A suppression by hand, for all mail or one stream; sent twice it is one."""
    wanted = manual or ManualSuppression()
    give_reason(text_of(wanted.reason))
    return await suppressions.suppress(
        service.database,
        caller.workspace,
        _address(address),
        reason=text_of(wanted.reason),
        stream=text_of(wanted.stream) or "",
        new_id=service.clock.new_id(),
        now_ms=service.clock.now_ms(),
    )


@router.delete(
    "/{address:path}",
    summary="Lift a suppression",
    description=(
        "Covers every cause and stream unless some are named: all that was seen by now, and "
        "what arrives later with an earlier time. A newer event suppresses again. The lift "
        "stays visible."
    ),
)
async def lift(
    service: TheService,
    caller: Writer,
    address: TheAddress,
    cause: TheCause,
    stream: Annotated[
        str | None, Query(description="Lift this stream alone; empty: what holds for all mail.")
    ] = None,
    reason: Annotated[str | None, Query(max_length=500, description="Kept with the lift.")] = None,
) -> SuppressionJson:
    give_reason(text_of(reason))
    return await suppressions.lift(
        service.database,
        caller.workspace,
        _address(address),
        cause=cause,
        stream=None if stream is None else text_of(stream) or "",
        reason=text_of(reason),
        by_key=caller.by,
        new_id=service.clock.new_id(),
        now_ms=service.clock.now_ms(),
    )


def _address(text: str) -> str:
    address = address_in("address", text)
    assert address is not None, "the path has an address"
    return address
