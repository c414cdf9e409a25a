"""What the operator of an installation does: check it, prune it, and change its settings."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from mailonce.edge.http.access import Admin, TheService
from mailonce.edge.http.query import FLAG, KNOWN_QUERY, flag_of
from mailonce.errors import RefusedError
from mailonce.manage.reencrypt import reencrypt

router = APIRouter(prefix="/v1", tags=["operation"], dependencies=KNOWN_QUERY)


@router.post("/prunings", summary="Forget what is older than its window")
async def prune(service: TheService, caller: Admin) -> dict[str, Any]:
    """Runs by itself every ten minutes; the answer says what this round did."""
    del caller
    return asdict(await service.maintenance.prune())


@router.post("/reencryptions", summary="Encrypt stored secrets with the first master key")
async def reencrypt_secrets(service: TheService, caller: Admin) -> dict[str, Any]:
    """For a new master key, once every process has it: see docs/operate.md.

    `encrypted` counts what is encrypted with the first key now, and `left` what an older one still
    encrypts: ask again while both are above 0.
    """
    del caller
    return asdict(await reencrypt(service.manage.parts))


@router.post("/reloads", summary="Read the settings again")
async def reload(service: TheService, caller: Admin) -> dict[str, Any]:
    """As SIGHUP does, for the process that answers; a wrong file changes nothing.

    `changed` is in force now (settings, and sources, routes and senders of the file that had been
    changed in other ways), `restart` takes effect with a restart, and `off` lists the sources,
    routes and senders that are switched off because the file no longer has them. `variables` are
    those that give settings and were not read again; those in `over_file` give something else than
    the file, which does not count there.
    """
    del caller
    if service.reload is None:
        raise RefusedError("no server runs here; it reads its settings when it starts")
    return asdict(await service.reload())


@router.get("/checkup", summary="Check the installation")
async def check_up(
    service: TheService,
    caller: Admin,
    dns: Annotated[
        str | None,
        Query(description="Ask name servers for the MX records, too.", json_schema_extra=FLAG),
    ] = None,
) -> dict[str, Any]:
    """What is well, what needs a look and what to do; see `mailonce doctor`.

    `server` names its database, without user and password, and its master keys by their ids.
    """
    del caller
    findings = await service.examine(dns=flag_of("dns", dns) or False)
    its = service.identity
    server = {"database": its.database, "master_keys": its.master_keys}
    return {"data": [asdict(one) for one in findings], "next": None, "server": server}
