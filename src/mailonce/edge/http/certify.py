"""Test a route's receiver."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from mailonce.edge.http.access import TheService, Writer
from mailonce.pipeline.certify import certify_route

router = APIRouter(prefix="/v1/routes", tags=["routes"])


@router.post("/{route_id}/test", summary="Test a route's receiver")
async def test_route(service: TheService, caller: Writer, route_id: str) -> dict[str, Any]:
    """Sends good, duplicated, changed, unsigned, forged, stale and slow probes.

    Each has the header `X-Mailonce-Probe` and the type `other`. The receiver's grade, from A to
    F, is that of its worst answer.
    """
    route = service.manage.routes.find(caller, route_id)
    certificate = await certify_route(service.client, service.clock, route)
    return {
        "route": route.name,
        "url": route.url,
        "grade": certificate.grade.value,
        "data": [asdict(finding) for finding in certificate.findings],
    }
