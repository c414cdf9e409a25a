"""GET /v1/providers: the mail services that mailonce understands."""

from fastapi import APIRouter

from mailonce.edge.http.access import Reader
from mailonce.edge.http.query import KNOWN_QUERY
from mailonce.views import providers
from mailonce.views.paging import Page
from mailonce.views.providers import ProviderJson

router = APIRouter(prefix="/v1/providers", tags=["providers"], dependencies=KNOWN_QUERY)


@router.get("", summary="List providers")
async def list_providers(caller: Reader) -> Page[ProviderJson]:
    """Every mail service that mailonce understands, and what is known of it."""
    del caller
    return {"data": providers.list_providers(), "next": None}
