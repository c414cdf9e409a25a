"""Mail domains over the API, and mail that no inbox took."""

from typing import Any

from fastapi import APIRouter, Response
from pydantic import Field

from mailonce.core.ids import private
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.inboxes import StrictBody
from mailonce.edge.http.manage import StorableText
from mailonce.edge.http.query import KNOWN_QUERY, ThePage
from mailonce.views import inboxes
from mailonce.views.files import download_headers
from mailonce.views.inbox_messages import unread_mail
from mailonce.views.inboxes import DomainJson, RefusedMailJson, UnmatchedJson
from mailonce.views.paging import Page

router = APIRouter(prefix="/v1", tags=["inboxes"], dependencies=KNOWN_QUERY)

DAY_MS = 86_400_000


class NewDomain(StrictBody):
    """A mail domain to have."""

    domain: StorableText = Field(max_length=253, description="such as in.example.com")


class ShownDomain(DomainJson):
    """A domain, and what was refused there within a day because no inbox has the address."""

    refused: list[RefusedMailJson]


class Adoption(StrictBody):
    """Which inbox takes a mail."""

    inbox: StorableText = Field(max_length=400, description="its id, or an address of it")


@router.get("/domains", summary="List mail domains")
async def list_domains(service: TheService, caller: Reader) -> Page[DomainJson]:
    """The first of them is that of inboxes which ask for none."""
    domains = await service.manage.domains.list_of(caller)
    return {"data": [inboxes.domain_json(one) for one in domains], "next": None}


@router.post("/domains", status_code=201, summary="Add a mail domain")
async def add_domain(service: TheService, caller: Writer, new: NewDomain) -> DomainJson:
    """It belongs to this workspace alone; then let its MX record name the SMTP door."""
    return inboxes.domain_json(await service.manage.domains.add(caller, new.domain))


@router.get("/domains/{domain}", summary="Show a mail domain")
async def show_domain(service: TheService, caller: Reader, domain: str) -> ShownDomain:
    """With what was refused there within a day because no inbox has the address."""
    known = await service.manage.domains.find(caller, domain)
    await service.mail.refusals.flush()
    refused = await inboxes.list_domain_refusals(
        service.database,
        caller.workspace,
        known.domain,
        since_ms=service.clock.now_ms() - DAY_MS,
    )
    return {**inboxes.domain_json(known), "refused": refused}


@router.delete("/domains/{domain}", status_code=204, summary="Let a mail domain go")
async def remove_domain(service: TheService, caller: Writer, domain: str) -> Response:
    """Once no address of it leads to an inbox; another workspace may have it then."""
    await service.manage.domains.remove(caller, domain)
    return Response(status_code=204)


@router.get("/unmatched", summary="List mail that no inbox took")
async def list_unmatched(service: TheService, caller: Reader, page: ThePage) -> Page[UnmatchedJson]:
    """The newest first: handed over by a provider's hook, or accepted while its inbox ended."""
    return await inboxes.list_unmatched(service.database, caller.workspace, page)


@router.get(
    "/unmatched/{mail_id}/raw", summary="Download a mail as it came", response_class=Response
)
async def download_mail(service: TheService, caller: Writer, mail_id: str) -> Response:
    """By the id of the mail, whether or not an inbox has it."""
    key = private(MAIL_PREFIX, mail_id)
    file = await unread_mail(service.database, caller.workspace, key)
    return Response(file.content, headers=download_headers(file.name), media_type=file.type)


@router.post("/unmatched/{mail_id}/adopt", summary="Put a mail into an inbox")
async def adopt(
    service: TheService, caller: Writer, mail_id: str, wanted: Adoption
) -> dict[str, Any]:
    """It is numbered there as if it came now, and read; asked for twice, it is put there once."""
    adopted = await service.manage.inboxes.adopt(caller, mail_id, wanted.inbox)
    service.wakes.owed([adopted.lane])
    return {"inbox": adopted.inbox, "seq": adopted.seq}
