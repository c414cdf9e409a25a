"""The gate in a FastAPI app: a route class, and dependencies that give the passage.

router = APIRouter(route_class=gated(gate))

@router.post("/hooks")
async def hook(event: Event, tx: Annotated[AsyncSession, Depends(transaction)]): ...
"""

from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute

from mailonce.gate.adapters.asgi import GateMiddleware, Receive, Scope, Send, passage_of
from mailonce.gate.asynchronous import AsyncGate, AsyncPassage

__all__ = ["GateMiddleware", "gated", "passage", "transaction"]


def passage(request: Request) -> AsyncPassage[Any]:
    """Depend on the passage, for its effect keys, outbox and recovery points."""
    return passage_of(request.scope)


def transaction(request: Request) -> Any:
    """Depend on the session or connection in which the claim was made."""
    return passage_of(request.scope).tx


def gated(gate: AsyncGate[Any]) -> type[APIRoute]:
    """Make a route class whose routes stand behind `gate`.

    A dependency alone could not do it: FastAPI ends dependencies after the response has left.
    """

    class GatedRoute(APIRoute):
        async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
            await GateMiddleware(super().handle, gate)(scope, receive, send)

    return GatedRoute
