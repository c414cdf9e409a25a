"""What the conformance suite asks of a rig."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mailonce.gate import Policy, Request, Response
from mailonce.gate.base import Mode
from tests.gate.places import Place
from tests.gate.shop import Shop


class Rig(Protocol):
    """An app behind a gate. A handler that raises is a 500, as it is over HTTP."""

    async def send(self, request: Request) -> Response:
        """Send one request all the way."""

    async def close(self) -> None:
        """Give everything back."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a rig is built of. The app must use `table`, so that tests can take it away."""

    place: Place
    shop: Shop
    policy: Policy
    mode: Mode = "atomic"
    table: str = "webhook_idempotency"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way to build a rig, and where it runs."""

    name: str
    build: Callable[[Setting], Rig]
    dialects: tuple[str, ...]
    modes: tuple[Mode, ...] = ("atomic", "lease")


def url_of(request: Request) -> str:
    """Give the path with its query string, as it stands in a request line."""
    return f"{request.path}?{request.query}" if request.query else request.path
