"""Expectations over the API: opened, waited for, consumed, confirmed, redeemed, explained."""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response

from mailonce.core.access import Caller
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.expectation_request import request_key
from mailonce.core.ids import public
from mailonce.edge.http.access import ExpectationReader, Expecter, Reader, TheService
from mailonce.edge.http.expectation_bodies import (
    Confirmation,
    ConsumeRequest,
    NarrowerExpectation,
    NewExpectation,
    NewInboxExpectation,
    ResendRequest,
)
from mailonce.edge.http.inbox_messages import SECONDS
from mailonce.edge.http.inboxes import IdempotencyKey
from mailonce.edge.http.looks import ExpectationLook
from mailonce.edge.http.parking import parking_of
from mailonce.edge.http.query import KNOWN_QUERY, ThePage, seconds_of, word_of
from mailonce.errors import AccessError
from mailonce.inbox.expectations.change_expectation import ask_resend, narrow_expectation
from mailonce.inbox.expectations.consume import confirm, consume
from mailonce.inbox.expectations.expectation_parts import expectation_id
from mailonce.inbox.expectations.open_expectation import (
    OpenedExpectation,
    check_request,
    open_expectation,
)
from mailonce.inbox.expectations.redeem import redeem
from mailonce.inbox.waiting import WAIT_S_MAX
from mailonce.service import Service
from mailonce.views import expectation_pages, expectations, explanation
from mailonce.views.expectations import (
    ConsumedJson,
    ExpectationJson,
    RedemptionJson,
    ResendJson,
    shown_to,
)
from mailonce.views.paging import Page

router = APIRouter(prefix="/v1", tags=["expectations"], dependencies=KNOWN_QUERY)

NOT_FREE: dict[int | str, dict[str, Any]] = {
    409: {
        "description": "Another consume key has it: `retry_at` says until when, or `confirmed_at` "
        "since when it is confirmed. Or there is nothing to consume: `state` and `reason` say why."
    }
}


class ConfirmedJson(ExpectationJson):
    """The expectation after a confirmation; `superseding` are artifacts of later mails."""

    accepted: bool
    superseding: list[str]


@router.post(
    "/inboxes/{inbox_id}/expectations",
    status_code=201,
    summary="Open an expectation",
    response_model=ExpectationJson,
    responses={409: {"description": "The key stands for another request."}},
)
async def open_of_inbox(
    service: TheService,
    caller: Expecter,
    inbox_id: str,
    new: NewExpectation,
    key: IdempotencyKey = None,
) -> Response:
    """Open it before the mail is triggered: what comes from now on counts, older mail does not."""
    _refuse_child(caller)
    inbox = await service.manage.inboxes.find_for_expectation(caller, inbox_id)
    request = new.request()
    opened = await open_expectation(service.expectations.parts, caller, inbox.id, request, key=key)
    return await _opened(service, caller, opened, after=request.after)


@router.post(
    "/expectations",
    status_code=201,
    summary="Make an inbox and open an expectation of it",
    response_model=ExpectationJson,
    responses={409: {"description": "The key stands for another request."}},
)
async def open_with_inbox(
    service: TheService,
    caller: Expecter,
    new: NewInboxExpectation,
    key: IdempotencyKey = None,
) -> Response:
    """`address` is where the mail is to go. With `Idempotency-Key`, repeated calls get the same."""
    _refuse_child(caller)
    request = new.request()
    # What is wrong with the expectation costs no inbox.
    check_request(service.expectations.parts, caller, request)
    inbox_key = None if key is None else f"expectation.{request_key(key, caller.key).hex()}"
    made = await service.manage.inboxes.make(caller, [new.inbox.request()], key=inbox_key)
    [inbox] = made.inboxes
    opened = await open_expectation(
        service.expectations.parts, caller, inbox.id, request, key=key, place="new"
    )
    return await _opened(service, caller, opened, after=request.after)


@router.get("/expectations", summary="List expectations")
async def list_all(
    service: TheService,
    caller: Reader,
    page: ThePage,
    state: Annotated[
        str | None, Query(json_schema_extra={"enum": [one.value for one in ExpectationState]})
    ] = None,
    inbox: Annotated[str | None, Query(description="Of this inbox, by its id.")] = None,
) -> Page[ExpectationJson]:
    """The newest first."""
    wanted = word_of(ExpectationState, "state", state)
    now_ms = await service.expectations.parts.now_ms()
    return await expectation_pages.list_expectations(
        service.database, caller, page, state=wanted, inbox=inbox, now_ms=now_ms
    )


@router.get(
    "/expectations/{expectation}",
    summary="Show an expectation, or wait for its mail",
    response_model=ExpectationJson,
)
async def show(
    request: Request,
    service: TheService,
    caller: ExpectationReader,
    expectation: str,
    wait: Annotated[
        str, Query(description="Seconds to wait for its mail.", json_schema_extra=SECONDS)
    ] = "0",
) -> Response:
    """Answers as soon as it is not `waiting`; where it is `ready`, consume its `artifact`.

    A mail that is quarantined ends no wait before the deadline: the right one may still come.
    """
    wait_s = seconds_of("wait", wait, most=WAIT_S_MAX)
    id_ = _own(caller, expectation)
    parking = parking_of(request)

    question = ExpectationLook(caller, id_)

    async def look() -> Response:
        outcome = await question.look(service, waits=parking.left_s(wait_s) > 0)
        return parking.answered(outcome)

    return await parking.first(look)


@router.post(
    "/expectations/{expectation}/narrow",
    summary="Narrow an expectation",
    response_model=ExpectationJson,
)
async def narrow(
    service: TheService, caller: Expecter, expectation: str, narrower: NarrowerExpectation
) -> Response:
    """Ask for less than before: nobody can widen it, not even an operator."""
    id_ = _own(caller, expectation)
    await narrow_expectation(service.expectations.parts, caller, id_, narrower.request())
    return await _shown(service, caller, id_)


@router.post(
    "/expectations/{expectation}/consume",
    summary="Consume the artifact",
    response_model=ConsumedJson,
    responses=NOT_FREE,
)
async def consume_artifact(
    service: TheService, caller: Expecter, expectation: str, wanted: ConsumeRequest
) -> Response:
    """Gives its value, once. The same consume key gets it again; then say what became of it."""
    id_ = _own(caller, expectation)
    consumed = await consume(
        service.expectations.parts, caller, id_, consume_key=wanted.consume_key
    )
    policy = consumed.known.expectation.policy
    shown = expectations.consumed_json(
        caller, policy, consumed.consumption, consumed.offer, consumed.value
    )
    return _json(shown_to(caller, shown, policy))


@router.post(
    "/expectations/{expectation}/confirm",
    summary="Say what became of the value",
    response_model=ConfirmedJson,
)
async def confirm_consumption(
    service: TheService, caller: Expecter, expectation: str, confirmation: Confirmation
) -> Response:
    """`accepted` ends it; a rejected value is not offered again, and the next one is."""
    id_ = _own(caller, expectation)
    confirmed = await confirm(
        service.expectations.parts,
        caller,
        id_,
        consume_key=confirmation.consume_key,
        accepted=confirmation.accepted,
    )
    shown = {
        **expectations.expectation_json(caller, confirmed.known, confirmed.settled),
        "accepted": confirmation.accepted,
        "superseding": [public("art", one) for one in confirmed.superseding],
    }
    return _answer(caller, shown)


@router.post(
    "/expectations/{expectation}/redeem",
    summary="Let the server open the consumed link, once",
    response_model=RedemptionJson,
)
async def redeem_link(
    service: TheService, caller: Expecter, expectation: str, wanted: ConsumeRequest
) -> Response:
    """Recorded before the first byte; after a crash it is `unknown`, and is not repeated."""
    id_ = _own(caller, expectation)
    parts = service.expectations.parts
    redemption = await redeem(parts, caller, id_, consume_key=wanted.consume_key)
    shown = expectations.redemption_json(redemption, now_ms=await parts.now_ms())
    return _answer(caller, shown)


@router.post(
    "/expectations/{expectation}/resend",
    summary="Ask whether the mail may be asked for again",
    response_model=ResendJson,
)
async def resend_expected(
    service: TheService,
    caller: Expecter,
    expectation: str,
    wanted: ResendRequest | None = None,
) -> Response:
    """A grant is spent at once; trigger the resend then. `wait_s` says when to ask again."""
    id_ = _own(caller, expectation)
    number = None if wanted is None else wanted.number
    decision = await ask_resend(service.expectations.parts, caller, id_, number=number)
    return _answer(caller, expectations.resend_json(decision))


@router.get(
    "/expectations/{expectation}/explain",
    summary="Explain how an expectation stands",
    response_model=dict[str, Any],
)
async def explain(service: TheService, caller: ExpectationReader, expectation: str) -> Response:
    """Each mail, each matcher, each candidate, what was delivered and consumed; never a value."""
    id_ = _own(caller, expectation)
    now_ms = await service.expectations.parts.now_ms()
    routes, down = service.snapshot.routes, await service.endpoints_down()
    shown = await explanation.explain(
        service.database, caller, id_, routes, now_ms=now_ms, down=down
    )
    return _answer(caller, shown)


async def _opened(
    service: Service, caller: Caller, opened: OpenedExpectation, *, after: int | None
) -> Response:
    if not opened.is_replay and after is None:
        # No mail counts yet, so there is nothing to read.
        known, settled = expectations.standing_of_new(opened.expectation)
        return _json(shown_to(caller, expectations.expectation_json(caller, known, settled)), 201)
    headers = {"Idempotent-Replayed": "true"} if opened.is_replay else {}
    return await _shown(service, caller, opened.expectation.id, code=201, headers=headers)


async def _shown(
    service: Service,
    caller: Caller,
    id_: bytes,
    *,
    code: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    known, settled = await service.expectations.waiters.read(caller.workspace, id_)
    shown = expectations.expectation_json(caller, known, settled)
    return _json(shown_to(caller, shown), code, headers)


def _own(caller: Caller, text: str) -> bytes:
    """Read the id of an expectation; a child key has one alone."""
    id_ = expectation_id(text)
    if caller.child is not None and caller.child.expectation != text:
        raise AccessError("this key is for another expectation")
    return id_


def _refuse_child(caller: Caller) -> None:
    if caller.child is not None:
        raise AccessError("a child key has one expectation, and opens no other")


def _answer(caller: Caller, shown: Mapping[str, Any]) -> Response:
    return _json(shown_to(caller, shown))


def _json(shown: Any, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(shown), code, dict(headers or {}), media_type="application/json")
