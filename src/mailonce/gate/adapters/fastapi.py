"""The gate in a FastAPI app: a route class, and dependencies that give the passage.

router = APIRouter(route_class=gated(gate))

@router.post("/hooks")
async def hook(event: Event, tx: Annotated[AsyncSession, Depends(transaction)]): ...
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from mailonce.errors import ConfigError
from mailonce.gate.adapters.asgi import (
    BLOCKING,
    DEPENDENCIES,
    PASSAGE,
    GateMiddleware,
    Receive,
    Scope,
    Send,
    passage_of,
)
from mailonce.gate.async_gate import AsyncGate, AsyncPassage
from mailonce.gate.base import demand_gate, is_async

NO_DECORATOR = (
    "`gated` of FastAPI makes a route class, and is no decorator of a handler; write "
    "`APIRouter(route_class=gated(gate))`, and add the handler to that router"
)
NO_GATE = "`gated` makes a route class of a gate; write `route_class=gated(gate)`"
__all__ = ["GateMiddleware", "gated", "passage", "transaction"]


# Coroutines, because FastAPI runs plain functions in a thread, which costs more than the claim.
async def passage(request: Request) -> AsyncPassage[Any]:
    """Depend on the passage, for its effect keys, outbox and recovery points."""
    return _passage(request)


async def transaction(request: Request) -> Any:
    """Depend on the session or connection in which the claim was made."""
    return _passage(request).tx


def gated(gate: AsyncGate[Any], **route: Any) -> type[APIRoute]:
    """Make a route class whose routes stand behind `gate`.

    A dependency alone could not do it: FastAPI ends dependencies after the response has left.

    Raises: ConfigError, when such a route is added, where its handler asks for nothing by which it
    could write in the gate's transaction, or cannot await it; at once, where the gate blocks.
    """
    # FastAPI itself calls `route_class=gated`, with the path and the parts of a route.
    if route:
        raise ConfigError(NO_GATE)
    demand_gate(gate, written="gated({})", gate="AsyncGate", otherwise=NO_GATE)
    if not gate.awaits:
        raise ConfigError(BLOCKING)

    class GatedRoute(_BehindGate):
        def __init__(
            self, path: str, endpoint: Callable[..., Any] | None = None, **choices: Any
        ) -> None:
            if endpoint is None:
                raise ConfigError(NO_DECORATOR)
            super().__init__(path, endpoint, **choices)
            gates = gate.rules.policy.methods & set(self.methods or ())
            if gates and _blocks(self.dependant):
                raise ConfigError(
                    f"the handler of {path} is a plain `def`, which cannot await what it gets of "
                    "the gate, so that its change would be lost; write `async def`"
                )
            if gates and gate.rules.ways.atomic and not _reaches(self.dependant):
                raise ConfigError(
                    f"the handler of {path} cannot write in the gate's transaction; depend on "
                    "mailonce.gate.adapters.fastapi.transaction, or use mode 'lease'"
                )
            self._behind = GateMiddleware(super().handle, gate)

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            return _ending_dependencies(super().get_route_handler())

        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            await self._behind(scope, receive, send)

    return GatedRoute


class _BehindGate(APIRoute):
    """A route that some gate stands before, whatever methods that takes."""


def _ending_dependencies(
    handler: Callable[[Request], Coroutine[Any, Any, Response]],
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """End dependencies with `yield` as soon as the response is made, before the gate commits.

    FastAPI itself ends them when the response has left. Whatever one of them commits at its end
    would then come after the gate's own commit: unseen by its guard, and lost in a crash between
    the two. Streams and background tasks may still use them, and keep FastAPI's order.
    """

    async def handle(request: Request) -> Response:
        response = await handler(request)
        dependencies = request.scope.get(DEPENDENCIES)
        is_whole = isinstance(getattr(response, "body", None), bytes | memoryview)
        # A handler that asks for background tasks may have added none.
        tasks = getattr(response.background, "tasks", response.background)
        if dependencies is not None and is_whole and not tasks:
            await dependencies.aclose()
        return response

    return handle


def _passage(request: Request) -> AsyncPassage[Any]:
    if PASSAGE not in request.scope:
        if isinstance(request.scope.get("route"), _BehindGate):
            raise ConfigError(
                f"{request.method} {request.url.path} does not pass the gate, which takes the "
                "methods of `Policy(methods=…)`; use a session of your own there"
            )
        raise ConfigError(
            f"{request.url.path} does not stand behind a gate; add its route to a router made by "
            "APIRouter(route_class=gated(gate)), or put GateMiddleware before the app"
        )
    return passage_of(request.scope)


def _blocks(dependant: Dependant) -> bool:
    """Say whether a handler that cannot await depends on what must be awaited."""
    given = {one.call for one in dependant.dependencies}
    return not given.isdisjoint({passage, transaction}) and not is_async(dependant.call)


def _reaches(dependant: Dependant) -> bool:
    """Say whether a handler, or a dependency of it, can reach the passage."""
    return (
        dependant.call in (passage, transaction)
        or dependant.request_param_name is not None
        or dependant.http_connection_param_name is not None
        or any(_reaches(inner) for inner in dependant.dependencies)
    )
