"""Health, readiness and metrics."""

from typing import Any

from fastapi import APIRouter, Response

from mailonce.edge.http.access import TheService

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the process alive?")
async def healthz() -> dict[str, str]:
    """Says nothing about the database; see /readyz."""
    return {"status": "ok"}


@router.get("/readyz", summary="Can it take arrivals now?")
async def readyz(service: TheService) -> dict[str, Any]:
    """Commits a write as the door does; 503 where that fails or takes longer than 3 s."""
    return {"status": "ready", **await service.readiness()}


@router.get("/metrics", summary="Prometheus metrics")
async def metrics(service: TheService) -> Response:
    """Counters of this process."""
    service.metrics.queued.set(service.recorder.queued_events)
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")
