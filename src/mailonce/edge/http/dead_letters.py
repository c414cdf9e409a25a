"""/v1/dead-letters: what we gave up on."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.deliveries.delivery import delivery_key_of
from mailonce.core.query import DeadLetterFilter
from mailonce.core.reading.values import text_of
from mailonce.edge.http.access import Reader, TheService, Writer
from mailonce.edge.http.deliveries import AboutAddress, AboutMessage
from mailonce.edge.http.manage import StorableText
from mailonce.edge.http.query import (
    FLAG,
    KNOWN_QUERY,
    Since,
    ThePage,
    TheRoute,
    TheSource,
    Until,
    flag_of,
)
from mailonce.errors import ParseError
from mailonce.manage.audit import give_reason
from mailonce.views import dead_letters
from mailonce.views.dead_letters import DeadLetterJson, RetriedLetterJson
from mailonce.views.paging import Page
from mailonce.views.reader_body import is_limited

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"], dependencies=KNOWN_QUERY)

LETTER_KINDS = ("arrival", "delivery", "mail")


@router.get(
    "",
    summary="List dead letters",
    description=(
        "What we gave up on, newest first; `since` and `until` go by `failed_at`. A page holds at "
        "most 100, and of each `raw` no more than its first 64 KiB; `raw_bytes` tells its size. A "
        "reader's key does not see `raw`."
    ),
)
async def list_dead_letters(
    service: TheService,
    caller: Reader,
    page: ThePage,
    source: TheSource,
    route: TheRoute,
    since: Since,
    until: Until,
    recipient: AboutAddress,
    kind: Annotated[
        str | None,
        Query(
            description="What it was: an arrival or a mail that could not be read, or a delivery.",
            json_schema_extra={"enum": list(LETTER_KINDS)},
        ),
    ] = None,
    resolved: Annotated[
        str | None,
        Query(
            description="Those that were retried or dismissed instead.",
            json_schema_extra=FLAG,
        ),
    ] = None,
    message_id: AboutMessage = None,
    delivery: Annotated[
        str | None, Query(description="Of this delivery, by its id or key.")
    ] = None,
) -> Page[DeadLetterJson]:
    query = DeadLetterFilter(
        source=source,
        kind=_kind_of(kind),
        route=await service.manage.routes.id_of(caller, route),
        resolved=flag_of("resolved", resolved) or False,
        recipient=recipient,
        message_id=text_of(message_id),
        deliveries=None if delivery is None else (delivery_key_of(delivery),),
        since_ms=since,
        until_ms=until,
    )
    return await dead_letters.list_dead_letters(
        service.database, caller.workspace, query, page, has_raw=not is_limited(caller)
    )


@router.get("/{letter_id}", summary="Show a dead letter")
async def show_dead_letter(service: TheService, caller: Reader, letter_id: str) -> DeadLetterJson:
    """One dead letter; of a delivery, with the outcome of each attempt in `history`."""
    return await dead_letters.show_dead_letter(
        service.database, caller.workspace, letter_id, has_raw=not is_limited(caller)
    )


class LetterRetry(BaseModel):
    """How a dead letter is read again."""

    model_config = ConfigDict(extra="forbid")

    source: StorableText | None = Field(
        default=None,
        max_length=200,
        description="id or name of a source that stands in for the letter's own, if it was removed",
    )


@router.post(
    "/{letter_id}/retry",
    summary="Retry a dead letter",
    description=(
        "An arrival is read and recorded again, with today's code; a delivery is sent again, with "
        "the same bytes under the same key. The answer is the dead letter as it stands then: "
        "`resolved_at` shows that it took effect. An arrival that still cannot be read counts that "
        "in `attempts`, and `last_error` keeps the reason; a delivery whose route was removed is "
        "refused, and its letter stays as it is. Of a letter that was retried or "
        "dismissed before, nothing is sent: 409 says when, and which letter of the same delivery "
        "is open now; while its retry is still pending, the answer is the letter again, with "
        "`already_retried`."
    ),
)
async def retry_dead_letter(
    service: TheService, caller: Writer, letter_id: str, how: LetterRetry | None = None
) -> RetriedLetterJson:
    source = None if how is None else how.source
    is_ours = await service.retry_dead_letter(caller, letter_id, source=source)
    shown = await dead_letters.show_dead_letter(service.database, caller.workspace, letter_id)
    return {**shown, "already_retried": not is_ours}


class Dismissal(BaseModel):
    """Why nothing more is to be done."""

    model_config = ConfigDict(extra="forbid")

    reason: StorableText = Field(default="", max_length=200, description="for those who read it")


@router.post("/{letter_id}/dismiss", summary="Dismiss a dead letter")
async def dismiss_dead_letter(
    service: TheService, caller: Writer, letter_id: str, why: Dismissal | None = None
) -> DeadLetterJson:
    """Nothing more is done about it: it is kept with its reason, and counted no longer.

    Done again it changes nothing, but gives a reason to one that was dismissed without; one that
    was retried, or has another reason, is 409.
    """
    reason = (why or Dismissal()).reason
    give_reason(reason)
    await service.dismiss_dead_letter(caller, letter_id, reason=reason)
    return await dead_letters.show_dead_letter(service.database, caller.workspace, letter_id)


def _kind_of(word: str | None) -> str | None:
    if word is not None and word not in LETTER_KINDS:
        raise ParseError(f"`kind` is {word[:40]!r}; use one of {', '.join(LETTER_KINDS)}")
    return word
