"""Who calls: a key in the Authorization header becomes a proven caller."""

from typing import Annotated, Any, Protocol

from fastapi import Depends, Header, Request

from mailonce.core.access import READS, WRITES, Caller, demand


class Clock(Protocol):
    """Tells the time and mints ids."""

    def now_ms(self) -> int:
        """Tell the wall time in unix milliseconds."""

    def new_id(self) -> bytes:
        """Mint an id."""


class Service(Protocol):
    """What the routes need of the service."""

    database: Any
    clock: Clock

    async def caller_of(self, secret: str | None, workspace: str | None = None) -> Caller:
        """Prove an API caller."""

    async def retry_dead_letter(self, caller: Caller, dead_id: str) -> Any:
        """Parse and record a dead letter again."""


def the_service(request: Request) -> Service:
    """Give the service that the application was made with."""
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(the_service)]


async def caller(
    service: TheService,
    authorization: Annotated[str | None, Header()] = None,
    x_mailonce_workspace: Annotated[str | None, Header()] = None,
) -> Caller:
    """Prove who calls."""
    scheme, _, secret = (authorization or "").partition(" ")
    proven = secret.strip() if scheme.lower() == "bearer" else None
    return await service.caller_of(proven, x_mailonce_workspace)


async def reader(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may read."""
    demand(proven, READS)
    return proven


async def writer(proven: Annotated[Caller, Depends(caller)]) -> Caller:
    """Let those pass who may change things."""
    demand(proven, WRITES)
    return proven


Reader = Annotated[Caller, Depends(reader)]
Writer = Annotated[Caller, Depends(writer)]
