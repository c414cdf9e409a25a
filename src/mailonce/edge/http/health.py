"""Health, readiness and metrics."""

from typing import Any

from fastapi import APIRouter, Request, Response

from mailonce.core.access import READS, demand
from mailonce.edge.http.access import Bearer, TheService, caller

router = APIRouter(tags=["health"])


# Monitors and load balancers often ask with HEAD.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Is the process alive?")
async def healthz() -> dict[str, str]:
    """Says nothing about the database; see /readyz."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", summary="Can it take arrivals now?")
async def readyz(service: TheService) -> dict[str, Any]:
    """Commits a write as the door does; 503 where that fails or takes longer than 3 s."""
    return {"status": "ready", **await service.readiness()}


@router.get("/metrics", summary="Prometheus metrics")
async def metrics(request: Request, service: TheService, bearer: Bearer) -> Response:
    """Counters of this process: sums, and by source and route with a key.

    A reader's key names those of its workspace, the admin key all of them.

    `mailonce_ready` is what /readyz says, so it may take 3 s while the database does not answer.

    Behind a proxy everybody comes from this machine, so an address would prove nothing.
    """
    is_named = bearer is not None or "mailonce.local" in request.scope
    only = None
    if is_named:
        proven = await caller(request, service, bearer)
        demand(proven, READS)
        only = None if proven.is_admin else service.snapshot.ids_in(proven.workspace)
    service.metrics.ready.set(await service.is_ready())
    service.metrics.queued.set(service.recorder.queued_events)
    text = service.metrics.render(is_named=is_named, only=only)
    return Response(text, media_type="text/plain; version=0.0.4")
