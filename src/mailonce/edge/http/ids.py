"""GET /v1/ids/{prefix}: complete the beginning of an id."""

from fastapi import APIRouter

from mailonce.core.id_prefix import read_prefix
from mailonce.edge.http.access import Reader, TheService
from mailonce.edge.http.query import KNOWN_QUERY
from mailonce.views.id_search import find_ids
from mailonce.views.paging import Page

router = APIRouter(prefix="/v1/ids", tags=["events"], dependencies=KNOWN_QUERY)


@router.get("/{prefix}", summary="Complete an id")
async def complete_id(service: TheService, caller: Reader, prefix: str) -> Page[str]:
    """The ids that begin so: `dlv_…`, `evt_…`, `dead_…`, `snd_…`, `exp_…` or `arr_…`.

    With at least six digits. At most five: more than one means that the beginning is not unique.
    """
    matches = await find_ids(service.database, caller.workspace, read_prefix(prefix))
    return {"data": matches, "next": None}
