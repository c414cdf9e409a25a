"""The application: the door for arrivals in front, the API behind it."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce import __version__
from mailonce.edge.http import (
    arrival_outcomes,
    arrivals,
    arrivals_description,
    audit,
    body_reader,
    conflicts,
    consumptions,
    dead_letters,
    deliveries,
    domains,
    events,
    expectations,
    files,
    health,
    ids,
    inbox_messages,
    inboxes,
    key_access,
    manage,
    messages,
    operator,
    polls,
    problems,
    providers,
    reruns,
    routes,
    schemas,
    senders,
    sends,
    stats,
    submit,
    suppressions,
    templates,
    unsubscribe,
)
from mailonce.edge.http.llms import describe
from mailonce.edge.http.mcp_route import PATH as MCP_PATH
from mailonce.edge.http.mcp_route import McpRoute
from mailonce.edge.http.parking import ParkingApp
from mailonce.errors import MissingError, UnavailableError
from mailonce.service import Service

STATIC = Path(__file__).parent / "static"
# The pages need nothing from anywhere else, and no script that is not a file of ours.
# A proxy leads here by mistake. After a 404 some providers never send a webhook again.
NO_DOOR = "this process takes no webhooks: its `roles` have no door; post to a process that has it"
CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"

RESOURCES = (
    manage, key_access, routes, polls, events, arrival_outcomes, messages, suppressions, stats,
    conflicts, deliveries, dead_letters, reruns, inboxes, inbox_messages, expectations,
    consumptions, domains, files, sends, senders, templates, unsubscribe, ids, schemas, providers,
    operator, audit, health,
)  # fmt: skip


def build_app(service: Service, *, is_door: bool = True) -> ASGIApp:
    """Build the ASGI application of a service that is already started.

    A process that is no door answers health checks and metrics only.
    """
    api = FastAPI(
        title="mailonce",
        version=__version__,
        summary="One email event, one outcome.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        # A redirect would name the host from the caller's own Host header.
        redirect_slashes=False,
    )
    api.state.service = service
    problems.install(api)
    for module in RESOURCES if is_door else (health,):
        # Not included, which would build each route again, half a second's work: as they are.
        api.router.routes.extend(module.router.routes)
    if not is_door:
        _say_no_door(api)
        return api
    behind = ParkingApp(api, lambda: service.snapshot.version)
    api.router.routes.append(Route(MCP_PATH, McpRoute(behind), include_in_schema=False))
    api.mount("/static", StaticFiles(directory=STATIC), name="static")

    # Written once, however many ask at the same time: it needs no key, and to write it takes long.
    description = functools.cache(lambda: orjson.dumps(describe_api(api)))
    writing = asyncio.Lock()

    @api.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        async with writing:
            content = await asyncio.to_thread(description)
        return Response(content, media_type="application/json")

    @api.get("/llms.txt", include_in_schema=False)
    async def llms() -> Response:
        async with writing:
            content = await asyncio.to_thread(description)
        return Response(describe(orjson.loads(content)), media_type="text/plain")

    @api.head("/", include_in_schema=False)
    @api.get("/", include_in_schema=False)
    async def home() -> HTMLResponse:
        return _page("home.html")

    @api.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return _page("docs.html")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(arrivals.PREFIX):
            await arrivals.take(service, scope, receive, send)
        elif scope["type"] == "http" and submit.is_submission(scope):
            await submit.take(service, api, scope, receive, send)
        elif scope["type"] == "http":
            await body_reader.pass_on(service, behind, scope, receive, send)

    return app


def _say_no_door(api: FastAPI) -> None:
    """Say what a process is that takes no requests, to whoever opens its port."""
    here = "here are /healthz, /readyz and /metrics alone"
    what = "this mailonce process has no role `door`: it delivers, or takes mail over SMTP"

    @api.post(f"{arrivals.PREFIX}{{path:path}}", include_in_schema=False)
    async def take_later() -> None:
        raise UnavailableError(NO_DOOR)

    @api.get("/", include_in_schema=False)
    async def home() -> PlainTextResponse:
        return PlainTextResponse(f"{what}; {here}. The API is where a process has that role.\n")

    @api.api_route(
        "/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
    )
    async def nothing(path: str) -> Response:
        del path
        return problems.problem(404, f"{what}; {here}", kind=MissingError.code)


def describe_api(api: FastAPI) -> dict[str, Any]:
    """Describe every path, also the one that the framework does not serve."""
    described = api.openapi()
    paths = {arrivals_description.PATH: arrivals_description.OPERATIONS, **described["paths"]}
    return {**described, "paths": paths}


def _page(name: str) -> HTMLResponse:
    return HTMLResponse((STATIC / name).read_text(), headers={"Content-Security-Policy": CSP})
