"""/v1/senders: how mail goes out."""

from typing import Any

from fastapi import APIRouter, Response

from mailonce.core.sends.sender import SETTINGS, Sender
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.manage import NAME, Off
from mailonce.edge.http.query import KNOWN_QUERY
from mailonce.manage.audit import give_reason
from mailonce.settings import SenderSettings

router = APIRouter(prefix="/v1/senders", tags=["senders"], dependencies=KNOWN_QUERY)


class NewSender(SenderSettings):
    """A sender to make; its credentials are sealed and never shown again."""

    name: str = NAME


@router.get("", summary="List senders")
async def list_senders(service: TheService, caller: Reader) -> dict[str, Any]:
    """Every sender of the workspace, the default first, without its credentials."""
    senders = service.manage.senders.list_of(caller)
    return {"data": [sender_json(sender) for sender in senders], "next": None}


@router.post("", status_code=201, summary="Make a sender")
async def make_sender(new: NewSender, service: TheService, caller: Writer) -> dict[str, Any]:
    """The first sender of a workspace is its default."""
    settings = SenderSettings(**new.model_dump(exclude={"name"}))
    return sender_json(await service.manage.senders.make(caller, new.name, settings))


@router.get("/{sender_id}", summary="Show a sender")
async def show_sender(sender_id: str, service: TheService, caller: Reader) -> dict[str, Any]:
    """By id, or by name."""
    return sender_json(service.manage.senders.find(caller, sender_id))


@router.put("/{sender_id}", summary="Change a sender")
async def change_sender(
    sender_id: str, wanted: SenderSettings, service: TheService, caller: Writer
) -> dict[str, Any]:
    """Give all settings again; credentials that are left out stay as they are."""
    record, is_changed = await service.manage.senders.change(caller, sender_id, wanted)
    return {**sender_json(record), "changed": is_changed}


@router.delete("/{sender_id}", status_code=204, summary="Delete a sender")
async def delete_sender(sender_id: str, service: TheService, caller: Writer) -> Response:
    """Only once all of its mails are settled."""
    await service.manage.senders.remove(caller, sender_id)
    return Response(status_code=204)


@router.post("/{sender_id}/on", summary="Switch a sender on")
async def switch_on(sender_id: str, service: TheService, caller: Writer) -> dict[str, Any]:
    """Mails that waited meanwhile are sent."""
    sender = await service.manage.senders.switch(caller, sender_id, off=None)
    service.wakes.owed([sender.id])
    return sender_json(sender)


@router.post("/{sender_id}/off", summary="Switch a sender off")
async def switch_off(
    sender_id: str, service: TheService, caller: Writer, why: Off | None = None
) -> dict[str, Any]:
    """Nothing is sent by it; its mails wait."""
    give_reason(why.reason if why else None)
    reason = (why or Off()).reason
    return sender_json(await service.manage.senders.switch(caller, sender_id, off=reason))


def sender_json(sender: Sender) -> dict[str, Any]:
    """Show a sender without what opens its account."""
    return {
        "id": sender.id,
        "name": sender.name,
        "provider": sender.provider,
        "on": sender.off is None,
        "off_reason": sender.off,
        **SETTINGS.of(sender),
        "secrets": len(sender.secrets),
        "password": bool(sender.password),
        # False where no master key of this process opens its credentials.
        "readable": not sender.is_unreadable,
    }
