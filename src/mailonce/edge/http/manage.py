"""Sources, keys and workspaces over the API."""

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mailonce.core.access import Scope
from mailonce.core.arrivals.source import SETTINGS, Source
from mailonce.core.bounds import NAME_PATTERN, is_storable
from mailonce.core.moment import moment
from mailonce.edge.http.access import Admin, Reader, TheService, Writer
from mailonce.edge.http.query import KNOWN_QUERY
from mailonce.errors import AccessError
from mailonce.manage.audit import give_reason
from mailonce.settings import SourceSettings

router = APIRouter(prefix="/v1", dependencies=KNOWN_QUERY)

NAME = Field(min_length=1, max_length=100, pattern=NAME_PATTERN)

# Of what proves a sender, or us to a provider, a caller sees how many there are.
PROOFS = ("secrets", "public_keys", "basic", "tokens", "headers", "api_keys")


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("it has a character that cannot be kept (NUL or half a pair); take it out")
    return text


StorableText = Annotated[str, AfterValidator(_storable)]


class NewSource(SourceSettings):
    """A source to make; its secrets are sealed and never shown again."""

    name: str = NAME


class SourceChanges(SourceSettings):
    """The settings of a source that change."""

    provider: str = Field(default="", description="another provider")


class Off(BaseModel):
    """Why a source, route or sender is switched off."""

    model_config = ConfigDict(extra="forbid")

    reason: StorableText = Field(default="switched off", min_length=1, max_length=200)


class NewKey(BaseModel):
    """A key to make, in the workspace of the key that asks for it."""

    model_config = ConfigDict(extra="forbid")

    name: StorableText = Field(default="", max_length=100)
    scope: Scope = Scope.OPERATOR


class NewWorkspace(BaseModel):
    """A workspace to make."""

    model_config = ConfigDict(extra="forbid")

    name: str = NAME


@router.get("/sources", tags=["sources"], summary="List sources")
async def list_sources(service: TheService, caller: Reader) -> dict[str, Any]:
    """Every source of the workspace, without its secrets."""
    sources = service.manage.sources.list_of(caller)
    return {"data": [_shown(source, service.public_url) for source in sources], "next": None}


@router.post("/sources", status_code=201, tags=["sources"], summary="Make a source")
async def make_source(new: NewSource, service: TheService, caller: Writer) -> dict[str, Any]:
    """Then point the provider's webhook at its `url`: whole where `public_url` is set.

    Its path is `/in/NAME` in the default workspace, and `/in/ID` in another. Where the source has a
    token, append it: `/in/NAME/TOKEN`.
    """
    return _shown(await service.manage.sources.make(caller, new.name, new), service.public_url)


@router.get("/sources/{source_id}", tags=["sources"], summary="Show a source")
async def show_source(source_id: str, service: TheService, caller: Reader) -> dict[str, Any]:
    """By id, or by name."""
    return _shown(await service.manage.sources.find(caller, source_id), service.public_url)


@router.put("/sources/{source_id}", tags=["sources"], summary="Change a source")
async def change_source(
    source_id: str, wanted: SourceSettings, service: TheService, caller: Writer
) -> dict[str, Any]:
    """Give all settings again, secrets included; list old and new secrets while rotating.

    `changed` is false where it had the same settings already, and nothing was written.
    """
    record, is_changed = await service.manage.sources.change(caller, source_id, wanted)
    return {**_shown(record, service.public_url), "changed": is_changed}


@router.patch("/sources/{source_id}", tags=["sources"], summary="Change some settings of a source")
async def update_source(
    source_id: str, changes: SourceChanges, service: TheService, caller: Writer
) -> dict[str, Any]:
    """What is given changes; all other settings, secrets included, stay.

    `changed` is false where it had the same settings already, and nothing was written.
    """
    given = changes.model_dump(exclude_unset=True)
    record, is_changed = await service.manage.sources.update(caller, source_id, given)
    return {**_shown(record, service.public_url), "changed": is_changed}


@router.delete("/sources/{source_id}", status_code=204, tags=["sources"], summary="Delete a source")
async def delete_source(source_id: str, service: TheService, caller: Writer) -> Response:
    """What it brought stays."""
    await service.manage.sources.remove(caller, source_id)
    return Response(status_code=204)


@router.post("/sources/{source_id}/on", tags=["sources"], summary="Switch a source on")
async def switch_on(source_id: str, service: TheService, caller: Writer) -> dict[str, Any]:
    """Its webhooks are accepted again."""
    source = await service.manage.sources.switch(caller, source_id, off=None)
    return _shown(source, service.public_url)


@router.post("/sources/{source_id}/off", tags=["sources"], summary="Switch a source off")
async def switch_off(
    source_id: str, service: TheService, caller: Writer, why: Off | None = None
) -> dict[str, Any]:
    """Its webhooks are answered with the code on which the provider sends them again later."""
    give_reason(why.reason if why else None)
    reason = (why or Off()).reason
    source = await service.manage.sources.switch(caller, source_id, off=reason)
    return _shown(source, service.public_url)


@router.get("/keys", tags=["keys"], summary="List keys")
async def list_keys(service: TheService, caller: Writer) -> dict[str, Any]:
    """Keys are kept as hashes; only their names and scopes can be shown."""
    keys = await service.manage.keys.list_of(caller)
    shown = [
        {
            "id": key.id,
            "name": key.name,
            "scope": key.scope.value,
            "created_at": moment(key.created_ms),
            "revoked_at": moment(key.revoked_ms),
        }
        for key in keys
    ]
    return {"data": shown, "next": None}


@router.post("/keys", status_code=201, tags=["keys"], summary="Make a key")
async def make_key(new: NewKey, service: TheService, caller: Writer) -> dict[str, Any]:
    """The answer holds the key; it is not shown again."""
    if new.scope is Scope.ADMIN and caller.scope is not Scope.ADMIN:
        raise AccessError("an admin key is made with an admin key")
    key, secret = await service.manage.keys.make(caller.workspace, new.scope, new.name)
    return {"id": key.id, "name": key.name, "scope": key.scope.value, "key": secret}


@router.delete("/keys/{key_id}", status_code=204, tags=["keys"], summary="Revoke a key")
async def revoke_key(key_id: str, service: TheService, caller: Writer) -> Response:
    """It is refused everywhere within a second."""
    await service.manage.keys.revoke(caller, key_id)
    return Response(status_code=204)


@router.get("/workspaces", tags=["workspaces"], summary="List workspaces")
async def list_workspaces(service: TheService, caller: Admin) -> dict[str, Any]:
    """Every workspace; needs the admin key."""
    del caller
    workspaces = await service.manage.workspaces.list_all()
    return {"data": [{"id": row.id, "name": row.name} for row in workspaces], "next": None}


@router.post("/workspaces", status_code=201, tags=["workspaces"], summary="Make a workspace")
async def make_workspace(new: NewWorkspace, service: TheService, caller: Admin) -> dict[str, Any]:
    """The answer holds an operator key for it."""
    del caller
    made = await service.manage.workspaces.make(new.name)
    _, secret = await service.manage.keys.make(made.id, Scope.OPERATOR, "first key")
    return {"id": made.id, "name": made.name, "key": secret}


def _shown(source: Source, public_url: str) -> dict[str, Any]:
    place = source.name if source.workspace == "default" else source.id
    return {
        "id": source.id,
        "name": source.name,
        "provider": source.provider,
        "account": source.account,
        "url": f"{public_url}/in/{place}",
        "on": source.off is None,
        "off_reason": source.off,
        **SETTINGS.of(source),
        **{name: len(getattr(source, name)) for name in PROOFS},
        # False where no master key of this process opens its secrets.
        "readable": not source.is_unreadable,
    }
