"""The application: the door for arrivals in front, the API behind it."""

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce import __version__
from mailonce.edge.http import (
    arrivals,
    conflicts,
    dead_letters,
    deliveries,
    events,
    health,
    manage,
    messages,
    operate,
    problems,
    providers,
    reruns,
    routes,
    schemas,
    stats,
    suppressions,
)
from mailonce.service import Service

STATIC = Path(__file__).parent / "static"
# The pages need nothing from anywhere else, and no script that is not a file of ours.
CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"

RESOURCES = (
    manage, routes, events, messages, suppressions, stats, conflicts, deliveries, dead_letters,
    reruns, schemas, providers, operate, health,
)  # fmt: skip


def build_app(service: Service) -> ASGIApp:
    """Build the ASGI application of a service that is already started."""
    api = FastAPI(
        title="mailonce",
        version=__version__,
        summary="One email event, one outcome.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    api.state.service = service
    problems.install(api)
    for module in RESOURCES:
        api.include_router(module.router)
    api.mount("/static", StaticFiles(directory=STATIC), name="static")

    @api.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(
            (STATIC / "docs.html").read_text(), headers={"Content-Security-Policy": CSP}
        )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(arrivals.PREFIX):
            await arrivals.take(service, scope, receive, send)
        else:
            await api(scope, receive, send)

    return app
