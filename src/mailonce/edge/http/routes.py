"""/v1/routes: where events go."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.access import Caller, Scope
from mailonce.core.deliveries.route import SETTINGS, Route
from mailonce.core.deliveries.route_secret import OVERLAP_S, OVERLAP_S_MAX, Signing, signing_of
from mailonce.core.deliveries.signing import public_key_of
from mailonce.core.moment import moment
from mailonce.core.redact import origin_of
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.manage import NAME, Off
from mailonce.edge.http.query import KNOWN_QUERY
from mailonce.manage.audit import give_reason
from mailonce.manage.routes import PutRoute
from mailonce.pipeline.certify import certify_route
from mailonce.settings import RouteSettings

router = APIRouter(prefix="/v1/routes", tags=["routes"], dependencies=KNOWN_QUERY)


class NewRoute(RouteSettings):
    """A route to make; its secrets are sealed and never shown again."""

    name: str = NAME


class Rotation(BaseModel):
    """How a secret is rotated."""

    model_config = ConfigDict(extra="forbid")

    overlap_s: int = Field(
        default=OVERLAP_S,
        ge=0,
        le=OVERLAP_S_MAX,
        description="how long the old secret signs beside the new one",
    )
    signing: Signing = Field(default=Signing.HMAC, description="what the new secret is")


@router.get("", summary="List routes")
async def list_routes(service: TheService, caller: Reader) -> dict[str, Any]:
    """Every route of the workspace, without its secrets; a reader sees of its URL the host."""
    routes = service.manage.routes.list_of(caller)
    down = await service.endpoints_down()
    return {"data": [_seen_by(caller, route, down) for route in routes], "next": None}


@router.post("", status_code=201, summary="Make a route")
async def make_route(new: NewRoute, service: TheService, caller: Writer) -> dict[str, Any]:
    """Where no `secret` is given one is made; the answer holds it, and it is not shown again."""
    settings = RouteSettings(**new.model_dump(exclude={"name"}))
    return _put_json(await service.manage.routes.make(caller, new.name, settings))


@router.get("/{route_id}", summary="Show a route")
async def show_route(route_id: str, service: TheService, caller: Reader) -> dict[str, Any]:
    """By id, or by name. Of its secrets only their kind, and until when they sign."""
    route = await service.manage.routes.find(caller, route_id)
    return _seen_by(caller, route, await service.endpoints_down())


@router.put("/{route_id}", summary="Change a route")
async def change_route(
    route_id: str, wanted: RouteSettings, service: TheService, caller: Writer
) -> dict[str, Any]:
    """Give all settings again; without `secret` the secrets stay as they are.

    Pending deliveries keep their bodies.
    """
    record, is_changed = await service.manage.routes.change(caller, route_id, wanted)
    return {**_put_json(record), "changed": is_changed}


@router.patch("/{route_id}", summary="Change some settings of a route")
async def update_route(
    route_id: str, changes: RouteSettings, service: TheService, caller: Writer
) -> dict[str, Any]:
    """What is given changes; all other settings, secrets included, stay."""
    given = changes.model_dump(exclude_unset=True)
    record, is_changed = await service.manage.routes.update(caller, route_id, given)
    return {**_put_json(record), "changed": is_changed}


@router.delete("/{route_id}", status_code=204, summary="Delete a route")
async def delete_route(route_id: str, service: TheService, caller: Writer) -> Response:
    """Its pending deliveries become dead letters.

    A route that is made under its name again has its id, and these can be retried.
    """
    await service.remove_route(caller, route_id)
    return Response(status_code=204)


@router.post("/{route_id}/on", summary="Switch a route on")
async def switch_on(route_id: str, service: TheService, caller: Writer) -> dict[str, Any]:
    """Deliveries that waited meanwhile are sent."""
    route = await service.manage.routes.switch(caller, route_id, off=None)
    service.wakes.owed([route.id])
    return route_json(route)


@router.post("/{route_id}/off", summary="Switch a route off")
async def switch_off(
    route_id: str, service: TheService, caller: Writer, why: Off | None = None
) -> dict[str, Any]:
    """Nothing is sent; deliveries wait, for one window at most."""
    give_reason(why.reason if why else None)
    reason = (why or Off()).reason
    return route_json(await service.manage.routes.switch(caller, route_id, off=reason))


@router.post("/{route_id}/rotate", summary="Rotate a route's secret")
async def rotate_secret(
    route_id: str, service: TheService, caller: Writer, how: Rotation | None = None
) -> dict[str, Any]:
    """The answer holds the new secret, this once; until the overlap ends both sign each request."""
    how = how or Rotation()
    return _put_json(
        await service.manage.routes.rotate(
            caller, route_id, signing=how.signing, overlap_s=how.overlap_s
        )
    )


@router.post("/{route_id}/test", summary="Test a route's receiver")
async def test_route(service: TheService, caller: Writer, route_id: str) -> dict[str, Any]:
    """Sends good, duplicated, changed, unsigned, forged, stale and slow probes.

    Each has the header `X-Mailonce-Probe` and the type `other`. The receiver's grade, from A to
    F, is that of its worst answer.
    """
    route = await service.manage.routes.find(caller, route_id)
    certificate = await certify_route(service.client, service.clock, route)
    return {
        "route": route.name,
        "url": route.url,
        "grade": certificate.grade.value,
        "data": [asdict(finding) for finding in certificate.findings],
    }


def route_json(route: Route) -> dict[str, Any]:
    """Show a route without anything that signs or opens."""
    return {
        "id": route.id,
        "name": route.name,
        "kind": route.kind.value,
        "url": route.url,
        "on": route.off is None,
        "off_reason": route.off,
        **SETTINGS.of(route),
        "secrets": [
            {
                "signing": signing_of(secret.value).value,
                "public_key": public_key_of(secret.value),
                "until": moment(secret.until_ms),
            }
            for secret in route.secrets
        ],
        "headers": sorted(route.headers),
    }


def _seen_by(caller: Caller, route: Route, down: Mapping[str, int]) -> dict[str, Any]:
    """Show a route to whoever asks: many endpoints have a key in their path or query.

    Its endpoint is taken to be down after failures in a row; then one attempt at a time is made.
    """
    shown = route_json(route)
    next_ms = None if route.off is not None else down.get(route.id)
    shown |= {"endpoint_down": route.id in down, "next_attempt_at": moment(next_ms)}
    if caller.scope is Scope.READER and route.url:
        shown["url"] = origin_of(route.url)
    return shown


def _put_json(put: PutRoute) -> dict[str, Any]:
    shown = route_json(put.route)
    return shown if put.secret is None else {**shown, "secret": put.secret}
