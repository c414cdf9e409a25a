"""/v1/redeliveries and /v1/reprocessings: send the same bytes again, or read events anew."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.access import Caller
from mailonce.core.argument_error import ArgumentError
from mailonce.core.deliveries.delivery import delivery_key_of
from mailonce.core.deliveries.rerun import (
    FINISHED_STATES,
    IDS_MAX,
    RerunFilter,
    RerunKind,
    RerunState,
)
from mailonce.core.events.event import EventType
from mailonce.core.ids import private
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.deliveries import state_of
from mailonce.edge.http.query import KNOWN_QUERY, ThePage, check_order, moment_of
from mailonce.service import Service
from mailonce.views import reruns
from mailonce.views.paging import Page
from mailonce.views.reruns import RerunJson, rerun_json

router = APIRouter(prefix="/v1", tags=["deliveries"], dependencies=KNOWN_QUERY)


class _NewRerun(BaseModel):
    """What to go through; everything given must agree."""

    model_config = ConfigDict(extra="forbid")

    route: str | None = Field(default=None, description="for this route alone, by id or name")
    type: EventType | None = Field(default=None, description="of this type alone")
    since: str | None = Field(default=None, description="received at this time or later")
    until: str | None = Field(default=None, description="received before this time")
    ids: list[str] = Field(default=[], max_length=IDS_MAX, description="these alone, by their ids")
    dry_run: bool = Field(default=False, description="only count")


class NewReprocessing(_NewRerun):
    """What to read anew; everything given must agree."""

    missing: bool = Field(
        default=False,
        description="only events of which `route` never had a delivery; of those that it takes, "
        "each has the key that it would have had at first",
    )


class NewRedelivery(_NewRerun):
    """What to send again; everything given must agree."""

    state: str | list[str] | None = Field(
        default=None, description="their states; default: delivered and failed"
    )


@router.post("/redeliveries", status_code=202, summary="Redeliver")
async def redeliver(
    new: NewRedelivery, service: TheService, caller: Writer, response: Response
) -> dict[str, Any]:
    """The same bytes under the same key, marked with `X-Mailonce-Redelivery`.

    It is worked off behind the scenes: ask for it by its id. With `dry_run` it is only counted.
    Those whose mail was deleted are left out, and counted in `mail_deleted`; of `ids` also those
    whose route was removed, in `route_removed`.
    """
    words = [new.state] if isinstance(new.state, str) else new.state
    wanted = replace(
        await _filter(service, caller, new),
        states=FINISHED_STATES if words is None else tuple(state_of(word) for word in words),
        ids=tuple(delivery_key_of(text) for text in new.ids),
    )
    named = await service.reruns.leave_out_unsendable(caller.workspace, wanted)
    answer = await _begin(service, caller, RerunKind.REDELIVERY, named.filter_, new, response)
    return answer | {
        "mail_deleted": answer["mail_deleted"] + named.mail_deleted,
        "route_removed": named.route_removed,
    }


@router.post("/reprocessings", status_code=202, summary="Reprocess")
async def reprocess(
    new: NewReprocessing, service: TheService, caller: Writer, response: Response
) -> dict[str, Any]:
    """Events as today's code reads them, for the routes that take them today, under new keys.

    It is worked off behind the scenes: ask for it by its id. With `dry_run` it is only counted.
    With `missing` a route gets what it never had, and nothing else, however often that is asked.
    """
    if new.missing and new.route is None:
        raise ArgumentError("`missing` needs `route`: name the route that never had the events")
    query = replace(
        await _filter(service, caller, new),
        ids=tuple(private("evt", text) for text in new.ids),
        missing=new.missing,
    )
    answer = await _begin(service, caller, RerunKind.REPROCESSING, query, new, response)
    del answer["mail_deleted"]
    return answer


def _add_routes(kind: RerunKind, path: str) -> None:
    """Let reruns of a kind be listed, shown, stopped and resumed."""
    name = f"{kind}_id"
    one = f"{path}/{{{name}}}"
    the_id = Annotated[str, PathParameter(alias=name)]

    @router.get(path, summary=f"List {path[1:]}")
    async def list_(service: TheService, caller: Reader, page: ThePage) -> Page[RerunJson]:
        """Newest first."""
        return await reruns.list_reruns(service.database, caller.workspace, kind, page)

    @router.get(one, summary=f"Show a {kind}")
    async def show(service: TheService, caller: Reader, rerun_id: the_id) -> RerunJson:
        """How far it got: `done` of `total`."""
        id_ = private(kind.prefix, rerun_id)
        return rerun_json(await service.reruns.find(caller.workspace, kind, id_))

    @router.post(f"{one}/stop", summary=f"Stop a {kind}")
    async def stop(service: TheService, caller: Writer, rerun_id: the_id) -> RerunJson:
        """What it has done stays done; it can be resumed."""
        return await _switch(service, caller, kind, rerun_id, RerunState.STOPPED)

    @router.post(f"{one}/resume", summary=f"Resume a {kind}")
    async def resume(service: TheService, caller: Writer, rerun_id: the_id) -> RerunJson:
        """It goes on where it was stopped."""
        return await _switch(service, caller, kind, rerun_id, RerunState.RUNNING)


_add_routes(RerunKind.REDELIVERY, "/redeliveries")
_add_routes(RerunKind.REPROCESSING, "/reprocessings")


async def _switch(
    service: Service, caller: Caller, kind: RerunKind, rerun_id: str, to: RerunState
) -> RerunJson:
    id_ = private(kind.prefix, rerun_id)
    return rerun_json(await service.reruns.switch(caller.workspace, kind, id_, to=to))


async def _begin(
    service: Service,
    caller: Caller,
    kind: RerunKind,
    query: RerunFilter,
    new: _NewRerun,
    response: Response,
) -> dict[str, Any]:
    total, erased = await service.reruns.count(caller.workspace, kind, query)
    if new.dry_run:
        response.status_code = 200
        counted = {"dry_run": True, "kind": kind.value, "total": total}
        return counted | {"mail_deleted": erased}
    rerun = await service.reruns.make(caller.workspace, kind, query, total=total)
    return {**rerun_json(rerun), "mail_deleted": erased}


async def _filter(service: Service, caller: Caller, new: _NewRerun) -> RerunFilter:
    route = None if new.route is None else await service.manage.routes.find(caller, new.route)
    since_ms, until_ms = moment_of("since", new.since), moment_of("until", new.until)
    check_order(since_ms, until_ms)
    return RerunFilter(
        route=None if route is None else route.id,
        type=new.type,
        since_ms=since_ms,
        until_ms=until_ms,
    )
