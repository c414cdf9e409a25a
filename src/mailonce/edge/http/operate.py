"""What an operator asks the running service to do now."""

from fastapi import APIRouter
from pydantic import BaseModel

from mailonce.edge.http.access import Admin, TheService

router = APIRouter(prefix="/v1", tags=["operation"])


class Pruning(BaseModel):
    """What one round of pruning did."""

    days: int
    rotated: bool
    rows: int


@router.post("/prunings", summary="Prune now")
async def prune(service: TheService, caller: Admin) -> Pruning:
    """Forget what is past its window, as the schedule does by itself; needs the admin key."""
    del caller
    done = await service.maintenance.prune()
    return Pruning(days=done.days, rotated=done.rotated, rows=done.rows)
