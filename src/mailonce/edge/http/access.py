"""Access: the API key of a request, and the workspace it acts in."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import Depends, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from mailonce.core.access import (
    EXPECTS,
    READS,
    READS_EXPECTATIONS,
    READS_SENDS,
    SENDS,
    WRITES,
    Caller,
    Scope,
    demand,
)
from mailonce.manage.audit import begin_change
from mailonce.service import Service

READING = frozenset({"GET", "HEAD"})
USER_CHARS_MAX = 64
# What programs do all day, and what stands in a list of its own: mail, sends, expectations, polls.
NOT_AUDITED = frozenset({
    "acknowledge", "confirm_consumption", "consume_artifact", "narrow", "open_of_inbox",
    "open_with_inbox", "preview_template", "put_message", "read_several", "redeem_link",
    "resend_expected", "submit_send", "test_route",
})  # fmt: skip

_bearer = HTTPBearer(auto_error=False, description="An API key; make one with `mailonce key add`.")


async def the_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(the_service)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


async def caller(request: Request, service: TheService, bearer: Bearer) -> Caller:
    """Authenticate the caller. The admin may name another workspace in `Mailonce-Workspace`."""
    workspace = request.headers.get("mailonce-workspace")
    if "mailonce.local" in request.scope:
        # The socket in the data directory is open to the operator's own user alone.
        user = request.headers.get("mailonce-user", "")[:USER_CHARS_MAX]
        local = Caller("default", Scope.ADMIN, user=user)
        if workspace is not None:
            local = await service.manage.keys.acting_in(local, workspace)
        _begin(request, service, local)
        return local
    secret = bearer.credentials if bearer else None
    proven = await service.manage.keys.caller_of(secret, workspace)
    # Whatever goes wrong from here on, an agent reads no sentence that may quote somebody.
    request.state.scope = proven.scope
    _begin(request, service, proven)
    return proven


def operation_of(route: APIRoute) -> str:
    """Name an operation as the API's description does; each has one method."""
    return f"{''.join(route.methods or ())} {route.path_format}"


def _begin(request: Request, service: Service, proven: Caller) -> None:
    """Say who asks, for the audit log, where something is changed."""
    route: APIRoute = request.scope["route"]
    if request.method in READING or route.name in NOT_AUDITED:
        return
    object_ = " ".join(request.path_params.values())
    clock = service.manage.parts.clock
    begin_change(clock, proven, operation_of(route), object_)


async def authenticator(
    request: Request, service: TheService, bearer: Bearer
) -> Callable[[], Awaitable[Caller]]:
    """Give what authenticates the caller again, after a wait: its key may be revoked meanwhile."""
    return partial(caller, request, service, bearer)


async def reader(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may read."""
    demand(proven, READS)
    return proven


async def writer(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may change things in their workspace."""
    demand(proven, WRITES)
    return proven


async def send_reader(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may see what was sent."""
    demand(proven, READS_SENDS)
    return proven


async def send_writer(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may send."""
    demand(proven, SENDS)
    return proven


async def expecter(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may open expectations, and consume."""
    demand(proven, EXPECTS)
    return proven


async def expectation_reader(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may see expectations."""
    demand(proven, READS_EXPECTATIONS)
    return proven


async def admin(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let the operator of the installation pass."""
    demand(proven, frozenset({Scope.ADMIN}))
    return proven


Authenticate = Annotated[Callable[[], Awaitable[Caller]], Depends(authenticator)]
Reader = Annotated[Caller, Depends(reader)]
Writer = Annotated[Caller, Depends(writer)]
SendReader = Annotated[Caller, Depends(send_reader)]
SendWriter = Annotated[Caller, Depends(send_writer)]
Expecter = Annotated[Caller, Depends(expecter)]
ExpectationReader = Annotated[Caller, Depends(expectation_reader)]
Admin = Annotated[Caller, Depends(admin)]
