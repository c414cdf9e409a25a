"""Messages of an inbox over the API: read, waited for, streamed, downloaded, put in, deleted."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from mailonce.core.access import Caller
from mailonce.core.ids import public
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.mail_items import MAIL_PREFIX
from mailonce.core.query import MessageFilter
from mailonce.edge.http.access import Authenticate, Reader, TheService, Writer
from mailonce.edge.http.looks import InboxLook
from mailonce.edge.http.parking import parking_of
from mailonce.edge.http.query import (
    KNOWN_QUERY,
    Since,
    TheLimit,
    Until,
    number_of,
    parameter,
    seconds_of,
    sender_in,
    text_in,
)
from mailonce.errors import MailonceError
from mailonce.inbox.put_mail import put_mail
from mailonce.inbox.waiting import WAIT_S_MAX, CursorLostError, InboxPage
from mailonce.service import Service
from mailonce.views import inbox_messages
from mailonce.views.files import download_headers
from mailonce.views.inboxes import DeletionJson, RefusedMailJson, deletion_json

router = APIRouter(prefix="/v1/inboxes/{inbox_id}", tags=["inboxes"], dependencies=KNOWN_QUERY)

# How long a client should wait before it comes again, in milliseconds.
RETRY_MS = 2_000
CURSOR: dict[str, Any] = {"type": "integer", "minimum": 0}
SECONDS: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": WAIT_S_MAX}
MAIL_BODY = {
    "requestBody": {
        "required": True,
        "content": {"message/rfc822": {"schema": {"type": "string", "format": "binary"}}},
    }
}
GONE: dict[int | str, dict[str, Any]] = {
    410: {
        "description": "Mail behind `after` was deleted: `lost` of it, from `oldest_seq` on it is "
        "there. Go on with `after` = `next`."
    }
}

After = Annotated[
    str,
    Query(description="`next` of the last answer; 0 begins.", json_schema_extra=CURSOR),
]
Sender = Annotated[
    str | None, parameter("sender", sender_in, "An address, or @domain for all of its addresses.")
]
Subject = Annotated[str | None, parameter("subject", text_in, "Words that the subject contains.")]


class MessagesJson(BaseModel):
    """Messages in the order of their `seq`, and what proves that there were no others.

    `refused` is what was refused to this inbox since the message of `after`; `listening_since` is
    since when an SMTP door has listened without a gap, null where none does. `unread` counts mails
    that were accepted and cannot be shown yet, from the first on that was not read; `copies`, by
    the id of a message in `data`, how often the same mail came again.
    """

    data: list[dict[str, Any]]
    next: int
    unread: int
    copies: dict[str, int]
    listening_since: str | None
    refused: list[RefusedMailJson]


class PutMailJson(BaseModel):
    """A mail that was accepted; `new` is false where the inbox has had it already."""

    id: str
    new: bool


@router.get(
    "/messages",
    summary="Read an inbox, or wait for mail",
    response_model=MessagesJson,
    responses=GONE,
)
async def read_messages(
    request: Request,
    service: TheService,
    caller: Reader,
    inbox_id: str,
    limit: TheLimit,
    sender: Sender,
    subject: Subject,
    since: Since,
    until: Until,
    after: After = "0",
    wait: Annotated[
        str,
        Query(description="Seconds to wait where nothing came yet.", json_schema_extra=SECONDS),
    ] = "0",
) -> Response:
    """Messages behind `after`; where there are none, as soon as there is one.

    A page may hold fewer messages than `limit` while more follow: go on until it is empty.
    """
    number, wait_s = number_of("after", after), seconds_of("wait", wait, most=WAIT_S_MAX)
    which = MessageFilter(sender=sender, subject=subject, since_ms=since, until_ms=until)
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    parking = parking_of(request)

    question = InboxLook(caller, inbox, number, limit, which)

    async def look() -> Response:
        outcome = await question.look(service, waits=parking.left_s(wait_s) > 0)
        return parking.answered(outcome)

    return await parking.first(look)


@router.post(
    "/messages",
    status_code=202,
    summary="Put a mail into an inbox",
    openapi_extra=MAIL_BODY,
    response_model=PutMailJson,
)
async def put_message(
    request: Request,
    service: TheService,
    caller: Writer,
    inbox_id: str,
    to: Annotated[
        str | None, parameter("to", text_in, "The recipient; default: the inbox's own address.")
    ],
    mail_from: Annotated[
        str | None, parameter("from", text_in, "The sender of the envelope, where it is known.")
    ],
) -> dict[str, Any]:
    """The body is the mail itself; it is recorded and read like one that came over SMTP."""
    inbox = await service.manage.inboxes.find_for_mail(caller, inbox_id)
    accepted = await put_mail(
        service.mail.acceptance,
        inbox,
        await request.body(),
        recipient=to if to is not None else inbox_id,
        mail_from=mail_from,
    )
    return {"id": public(MAIL_PREFIX, accepted.mails[0]), "new": accepted.new > 0}


@router.get(
    "/stream",
    summary="Follow an inbox (server-sent events)",
    response_class=StreamingResponse,
    responses={**GONE, 200: {"content": {"text/event-stream": {}}}},
)
async def stream(
    service: TheService,
    caller: Reader,
    authenticate: Authenticate,
    inbox_id: str,
    after: After = "0",
    last_event_id: Annotated[
        str | None, Header(description="The `id` of the last event that was seen.")
    ] = None,
) -> StreamingResponse:
    """Each message is an event `message` whose `id` is its `seq`.

    An event `lost` says how much was deleted before it was read, and a comment comes every fifteen
    seconds. A client that was cut off comes again with `Last-Event-ID` and misses nothing.
    """
    name = "after" if last_event_id is None else "Last-Event-ID"
    number = number_of(name, after if last_event_id is None else last_event_id.strip())
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    service.mail.streams.check_room(caller.workspace)
    # What is wrong from the beginning is answered as such, not in the stream.
    await service.mail.readers.read(inbox.id, workspace=caller.workspace, after=number, limit=1)

    return StreamingResponse(
        _events(service, inbox, caller, number, authenticate),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@router.get("/messages/{msg_id}", summary="Show a message", response_model=dict[str, Any])
async def show_message(service: TheService, caller: Reader, inbox_id: str, msg_id: str) -> Response:
    """By its id or its `seq`: all of it for operators, a cleaned text for a reader's key.

    One that was deleted is 410.

    `copies` says how often the same mail came again.
    """
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    message = await _message(service, inbox, msg_id)
    body = await inbox_messages.show_message(service.database, caller, inbox.id, message)
    return Response(body, media_type="application/json")


@router.delete("/messages/{msg_id}", summary="Delete a message")
async def delete_message(
    service: TheService, caller: Writer, inbox_id: str, msg_id: str
) -> DeletionJson:
    """With its mail, its attachments and its bytes; the same mail again stays deleted."""
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    message = await _message(service, inbox, msg_id)
    counts = await service.manage.inboxes.delete_message(caller, inbox.id, message)
    return deletion_json(counts)


@router.get("/messages/{msg_id}/raw", summary="Download a mail as it came", response_class=Response)
async def download_raw(service: TheService, caller: Writer, inbox_id: str, msg_id: str) -> Response:
    """Its bytes; where a provider handed over fields instead, these as JSON."""
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    message = await _message(service, inbox, msg_id)
    file = await inbox_messages.raw_mail(service.database, inbox.id, message)
    return Response(file.content, headers=download_headers(file.name), media_type=file.type)


@router.get(
    "/messages/{msg_id}/attachments/{attachment_id}",
    summary="Download an attachment",
    response_class=Response,
)
async def download_attachment(
    service: TheService, caller: Writer, inbox_id: str, msg_id: str, attachment_id: str
) -> Response:
    """To be saved, never to be shown: the sender chose its name, its type and its bytes."""
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    message = await _message(service, inbox, msg_id)
    file = await inbox_messages.attachment(
        service.database, inbox.id, message, _text(attachment_id)
    )
    return Response(file.content, headers=download_headers(file.name), media_type=file.type)


async def _events(
    service: Service,
    inbox: Inbox,
    caller: Caller,
    after: int,
    authenticate: Callable[[], Awaitable[Caller]],
) -> AsyncIterator[bytes]:
    yield b"retry: %d\n\n" % RETRY_MS
    async for page in service.mail.streams.follow(inbox, after=after):
        try:
            # A key that was revoked meanwhile sees no more.
            await authenticate()
        except MailonceError:
            return
        if page is None:
            yield b": heartbeat\n\n"
        elif isinstance(page, CursorLostError):
            yield b"event: lost\nid: %d\ndata: %s\n\n" % (page.next, orjson.dumps(page.members))
        else:
            async for event in _message_events(caller, page):
                yield event


async def _message_events(caller: Caller, page: InboxPage) -> AsyncIterator[bytes]:
    """Write messages one by one: what a slow client has yet to read is held no more than once."""
    while page.messages:
        row = page.messages.pop(0)
        [shown] = await inbox_messages.show_messages(caller, [row])
        event = b"event: message\nid: %d\ndata: %s\n\n" % (row.seq, orjson.dumps(shown))
        del row, shown
        yield event


async def _message(service: Service, inbox: Inbox, name: str) -> str:
    return await inbox_messages.message_id_of(service.database, inbox, _text(name))


def _text(id_: str) -> str:
    return text_in("", id_) or ""
