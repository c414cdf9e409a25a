"""/v1/sends: mail that goes out, once."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from mailonce.core.access import READS
from mailonce.core.ids import private
from mailonce.core.query import SendFilter
from mailonce.core.reading.values import text_of
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.edge.http.access import SendReader, SendWriter, TheService, Writer
from mailonce.edge.http.manage import StorableText
from mailonce.edge.http.query import KNOWN_QUERY, Since, ThePage, Until, address_in, parameter
from mailonce.edge.http.send_body import send_schema
from mailonce.edge.http.submit import keys_of, submit
from mailonce.errors import ParseError
from mailonce.manage.audit import give_reason
from mailonce.send.acts import SendWord
from mailonce.views import sends
from mailonce.views.paging import Page
from mailonce.views.sends import SendJson, send_json

router = APIRouter(prefix="/v1/sends", tags=["sends"], dependencies=KNOWN_QUERY)

STATES = {state.word: state for state in SendState}
REPLAYED = "Idempotent-Replayed"

Text = Annotated[str | None, Query(max_length=500)]


class Reason(BaseModel):
    """Why somebody does something to a send; kept with it."""

    model_config = ConfigDict(extra="forbid")

    reason: StorableText | None = Field(default=None, max_length=500)


class Resolution(Reason):
    """What became of a send whose outcome is unknown."""

    outcome: SendWord


@router.post(
    "",
    status_code=202,
    summary="Send a mail, once",
    description=(
        "Takes one mail for one recipient or up to 1,000, each of whom gets a mail of its own. The "
        "key is the header `Idempotency-Key`, made before the first try, or derived from "
        "`cause_id`, `stream` and the template's name. The same key and content gives the same "
        "sends, with the header `Idempotent-Replayed: true`; other content under the key is 409."
    ),
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": send_schema()}}},
        "parameters": [
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}},
        ],
    },
    response_model=None,
)
async def submit_send(request: Request, service: TheService, caller: SendWriter) -> Response:
    keys = keys_of(request.headers.raw)
    answer = await submit(service, caller, await request.body(), keys)
    replayed = {REPLAYED: "true"} if answer.is_replayed else {}
    return Response(answer.content, 202, replayed, media_type="application/json")


@router.get("", summary="List sends")
async def list_sends(
    service: TheService,
    caller: SendReader,
    page: ThePage,
    since: Since,
    until: Until,
    recipient: Annotated[str | None, parameter("recipient", address_in, "To this address.")],
    state: Annotated[
        str | None,
        Query(description="Where they stand.", json_schema_extra={"enum": list(STATES)}),
    ] = None,
    sender: Annotated[str | None, Query(description="A sender, by its id or name.")] = None,
    stream: Annotated[str | None, Query(description="Of this stream.")] = None,
    key: Annotated[str | None, Query(description="Under this key.")] = None,
    cause_id: Annotated[str | None, Query(description="For this cause.")] = None,
) -> Page[SendJson]:
    """Newest first. `unknown` ones that need a person have `needs_person`."""
    query = SendFilter(
        state=None if state is None else _state_of(state),
        sender=service.manage.senders.id_of(caller, text_of(sender)),
        recipient=recipient,
        stream=text_of(stream),
        key=text_of(key),
        cause_id=text_of(cause_id),
        since_ms=since,
        until_ms=until,
    )
    return await sends.list_sends(
        service.database, caller.workspace, service.snapshot.senders, query, page
    )


@router.get("/{send_id}", summary="Show a send")
async def show_send(service: TheService, caller: SendReader, send_id: str) -> SendJson:
    """With each attempt, the evidence of its outcome, and the timeline.

    The timeline spans the events about the mail, their deliveries, and the mail that answers it,
    which a key with the scope `sender` does not see.
    """
    return await sends.show_send(
        service.database,
        caller.workspace,
        service.snapshot.senders,
        private("snd", send_id),
        routes=service.snapshot.routes,
        down=await service.endpoints_down(),
        shows_mail=caller.scope in READS,
    )


@router.post("/{send_id}/cancel", summary="Cancel a send")
async def cancel(
    service: TheService, caller: SendWriter, send_id: str, why: Reason | None = None
) -> SendJson:
    """Before its first byte left; its key stays taken."""
    reason = (why or Reason()).reason
    give_reason(reason)
    send = await service.sends.acts.cancel(
        caller.workspace, private("snd", send_id), by=caller.by, reason=reason
    )
    return send_json(send, service.snapshot.senders)


@router.post("/{send_id}/resolve", summary="Say what became of an unknown send")
async def resolve(
    service: TheService, caller: Writer, send_id: str, resolution: Resolution
) -> SendJson:
    """`sent` makes it accepted, `not_sent` refused; who said so is kept with it."""
    give_reason(resolution.reason)
    send = await service.sends.acts.resolve(
        caller.workspace,
        private("snd", send_id),
        resolution.outcome,
        by=caller.by,
        reason=resolution.reason,
    )
    return send_json(send, service.snapshot.senders)


@router.post("/{send_id}/resend", summary="Send a mail again")
async def resend(
    service: TheService, caller: Writer, send_id: str, why: Reason | None = None
) -> SendJson:
    """What is refused, suppressed or unknown; where it is unknown, its recipient may get two."""
    reason = (why or Reason()).reason
    give_reason(reason)
    send = await service.sends.acts.resend(
        caller.workspace, private("snd", send_id), by=caller.by, reason=reason
    )
    return send_json(send, service.snapshot.senders)


def _state_of(word: str) -> SendState:
    if word not in STATES:
        raise ParseError(f"`state` is {word[:40]!r}; use one of {', '.join(STATES)}")
    return STATES[word]
