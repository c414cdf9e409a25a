"""Inboxes over the API: made, listed, rotated, read in batches, and deleted."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Response
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.inboxes.inbox_request import InboxRequest
from mailonce.core.moment import moment
from mailonce.core.query import MessageFilter
from mailonce.edge.http.access import Authenticate, Reader, TheService, Writer
from mailonce.edge.http.manage import StorableText
from mailonce.edge.http.problems import code_of, problem_json
from mailonce.edge.http.query import KNOWN_QUERY, NUMBER_MAX, ThePage, sender_in
from mailonce.errors import ParseError, RefusedError
from mailonce.inbox.waiting import WAIT_S_MAX, InboxPage
from mailonce.manage.inboxes import BATCH_MAX, missing_inbox
from mailonce.views.inbox_messages import show_messages
from mailonce.views.inboxes import (
    DeletionJson,
    InboxJson,
    ShownInboxJson,
    deletion_json,
    inboxes_json,
    list_inboxes,
    refused_json,
    show_inbox,
    show_pending,
)
from mailonce.views.paging import LIMIT_MAX, Page

router = APIRouter(prefix="/v1/inboxes", tags=["inboxes"], dependencies=KNOWN_QUERY)

FILTER_CHARS_MAX = 320


class StrictBody(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid")


class NewInbox(StrictBody):
    """An inbox to make."""

    local: StorableText | None = Field(
        default=None,
        max_length=64,
        description="what stands before the @; none: a random one that nobody can guess; `*`: all "
        "addresses of the domain that no other inbox has",
    )
    domain: StorableText | None = Field(
        default=None, max_length=253, description="one of GET /v1/domains; default: the first"
    )
    ttl_s: int | None = Field(
        default=None,
        description="seconds until it is deleted with all its mail; left out: the default of the "
        "settings; null: never, where the settings allow that",
    )
    metadata: dict[str, Any] = Field(default={}, description="your own words, at most 4 KiB")
    mails_max: int | None = Field(default=None, description="how many mails it holds at most")
    bytes_max: int | None = Field(default=None, description="how many bytes of mail, likewise")

    def request(self) -> InboxRequest:
        return InboxRequest(
            local=self.local,
            domain=self.domain,
            ttl_s=self.ttl_s if "ttl_s" in self.model_fields_set else UNSET,
            metadata=self.metadata,
            mails_max=self.mails_max,
            bytes_max=self.bytes_max,
        )


class NewInboxes(NewInbox):
    """One inbox, or a list of them."""

    inboxes: list[NewInbox] | None = Field(
        default=None,
        max_length=BATCH_MAX,
        description="several at once, all or none; then nothing else is given",
    )


class InboxNames(StrictBody):
    """Some inboxes."""

    inboxes: list[StorableText] = Field(
        min_length=1, max_length=BATCH_MAX, description="ids or addresses; repeats do no harm"
    )


class AddressRotation(StrictBody):
    """How to give an inbox another address."""

    local: StorableText | None = Field(
        default=None, max_length=64, description="default: a random one"
    )
    grace_s: int | None = Field(
        default=None,
        ge=0,
        le=30 * 86_400,
        description="how long the old address takes mail; default: that of the settings",
    )


class InboxCursor(StrictBody):
    """Behind which number an inbox is read."""

    inbox: StorableText = Field(description="its id, or an address of it")
    after: int = Field(default=0, ge=0, le=NUMBER_MAX, description="`next` of the last answer")


class BatchRead(StrictBody):
    """Several inboxes to read, or to wait for."""

    inboxes: list[InboxCursor] = Field(min_length=1, max_length=BATCH_MAX)
    limit: int = Field(default=100, ge=1, le=LIMIT_MAX, description="messages of each inbox")
    wait: float = Field(
        default=0, ge=0, le=WAIT_S_MAX, description="seconds to wait where none has mail yet"
    )
    sender: StorableText | None = Field(
        default=None, max_length=FILTER_CHARS_MAX, description="an address, or @domain"
    )
    subject: StorableText | None = Field(
        default=None, max_length=FILTER_CHARS_MAX, description="words that it contains"
    )


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same key with the same body gives the same inboxes, and "
        "`Idempotent-Replayed: true`; with another body, 409.",
    ),
]


@router.post(
    "",
    status_code=201,
    summary="Make an inbox, or several",
    response_model=InboxJson | Page[InboxJson],
    responses={409: {"description": "An address is taken, or the key stands for another body."}},
)
async def make_inboxes(
    service: TheService,
    caller: Writer,
    key: IdempotencyKey = None,
    new: NewInboxes | None = None,
) -> Response:
    """Each has an address, collects mail for a time, and is then deleted with all of it."""
    wanted = new or NewInboxes()
    if wanted.inboxes is not None and wanted.model_fields_set != {"inboxes"}:
        raise ParseError("`inboxes` is a list of inboxes; give nothing else beside it")
    several = [wanted] if wanted.inboxes is None else wanted.inboxes
    requests = [one.request() for one in several]
    made = await service.manage.inboxes.make(caller, requests, key=key)
    shown = inboxes_json(made.inboxes)
    body = shown[0] if wanted.inboxes is None else {"data": shown, "next": None}
    headers = {"Idempotent-Replayed": "true"} if made.is_replay else None
    return Response(orjson.dumps(body), 201, headers, media_type="application/json")


@router.get("", summary="List inboxes")
async def list_all(service: TheService, caller: Reader, page: ThePage) -> Page[InboxJson]:
    """Those that are not past their time, the newest first."""
    now_ms = service.clock.now_ms()
    return await list_inboxes(service.database, caller.workspace, page, now_ms=now_ms)


@router.post("/delete", summary="Delete several inboxes")
async def delete_several(service: TheService, caller: Writer, names: InboxNames) -> DeletionJson:
    """Those that are there; `missing` names the others, so the same call again does no harm."""
    known = await service.manage.inboxes.find_each(caller, names.inboxes)
    inboxes = [inbox for inbox in known.values() if inbox is not None]
    report = await service.manage.inboxes.delete(caller, inboxes)
    service.mail.acceptance.forget()
    missing = [name for name, inbox in known.items() if inbox is None]
    return {**deletion_json(report.counts, is_complete=report.is_complete), "missing": missing}


@router.post("/messages", summary="Read several inboxes, or wait for them")
async def read_several(
    service: TheService, caller: Reader, authenticate: Authenticate, wanted: BatchRead
) -> Response:
    """Answers with one page for each, as soon as one of them has mail.

    What is wrong with one inbox stands in its `problem`, and costs the others nothing. Where all of
    it would be too much for one answer, some pages are empty: go on behind `next`.
    """
    known = await service.manage.inboxes.find_each(caller, [one.inbox for one in wanted.inboxes])
    cursors: dict[str, int] = {}
    data: list[dict[str, Any]] = []
    for one in wanted.inboxes:
        inbox = known[one.inbox]
        if inbox is not None:
            # Named twice, it is read once, from the earlier of its numbers.
            cursors[inbox.id] = min(one.after, cursors.get(inbox.id, one.after))
        else:
            data.append(_trouble(one.inbox, one.after, missing_inbox(one.inbox)))
    pages = await service.mail.readers.read_many(
        cursors,
        workspace=caller.workspace,
        limit=wanted.limit,
        wait_s=0 if data else wanted.wait,
        which=MessageFilter(sender=sender_in("sender", wanted.sender), subject=wanted.subject),
    )
    await authenticate()
    for id_, page in pages.items():
        if isinstance(page, InboxPage):
            shown = await show_messages(caller, page.messages)
            data.append({"inbox": id_, "data": shown, "next": page.next, "problem": None})
        else:
            data.append(_trouble(id_, cursors[id_], page))
    since_ms = await service.mail.listening.since_ms()
    answer = {"data": data, "listening_since": moment(since_ms)}
    return Response(orjson.dumps(answer), media_type="application/json")


@router.get("/{inbox_id}", summary="Show an inbox")
async def show(service: TheService, caller: Reader, inbox_id: str) -> ShownInboxJson:
    """By its id, or by an address that leads to it; with what was refused to it since it is there.

    `pending` counts mails that arrived and were not read yet, with the last error of the first that
    was tried: a provider may not have handed it over yet. `listening_since` is since when an SMTP
    door has listened without a gap, null where none does.
    """
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    refused = await service.mail.refusals.since(inbox, after=0)
    return {
        **await show_inbox(service.database, inbox),
        "pending": await show_pending(service.database, inbox),
        "listening_since": moment(await service.mail.listening.since_ms()),
        "refused": [refused_json(one) for one in refused],
    }


@router.delete("/{inbox_id}", summary="Delete an inbox")
async def delete(service: TheService, caller: Writer, inbox_id: str) -> DeletionJson:
    """With its mail, messages, attachments and bytes; the answer says how many of each.

    From then on nothing finds it. Where that is much, the server goes on after the answer.
    """
    inbox = await service.manage.inboxes.find(caller, inbox_id)
    report = await service.manage.inboxes.delete(caller, [inbox])
    service.mail.acceptance.forget()
    return deletion_json(report.counts, is_complete=report.is_complete)


@router.post("/{inbox_id}/rotate", summary="Give an inbox a new address")
async def rotate(
    service: TheService, caller: Writer, inbox_id: str, how: AddressRotation | None = None
) -> InboxJson:
    """The old one takes mail for a grace time, and refuses it from then on."""
    wanted = how or AddressRotation()
    inbox = await service.manage.inboxes.rotate(
        caller, inbox_id, local=wanted.local, grace_s=wanted.grace_s
    )
    service.mail.acceptance.forget()
    return await show_inbox(service.database, inbox)


def _trouble(inbox: str, after: int, error: RefusedError) -> dict[str, Any]:
    body = problem_json(code_of(error), str(error), kind=error.code, members=error.members)
    following = error.members.get("next", after)
    return {"inbox": inbox, "data": [], "next": following, "problem": orjson.Fragment(body)}
