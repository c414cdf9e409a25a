"""A scripted app behind the gate: what it does with each request is told beforehand."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mailonce.gate import Response


class HandlerError(Exception):
    """The app's own code fails."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """One run of the handler: what it answers after it has placed its order."""

    status: int = 201
    raises: bool = False
    # Stays inside, after placing the order, until the test lets it go.
    waits: bool = False
    orders: bool = True
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Shop:
    """Counts its runs; an order stands only if its transaction does."""

    script: deque[Act] = field(default_factory=deque)
    runs: int = 0
    inside: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def expect(self, *acts: Act) -> None:
        self.script.extend(acts)

    def serve(self, order: Callable[[str], object]) -> Response:
        """Handle a request with calls that block."""
        act = self._next()
        if act.orders:
            order("tea")
        if act.waits:
            self.inside.set()
            assert self.go.wait(60), "nobody let the handler go"
        return self._ended(act)

    async def aserve(self, order: Callable[[str], Awaitable[object]]) -> Response:
        """Handle a request with awaits."""
        act = self._next()
        if act.orders:
            await order("tea")
        if act.waits:
            self.inside.set()
            assert await asyncio.to_thread(self.go.wait, 20), "nobody let the handler go"
        return self._ended(act)

    def _next(self) -> Act:
        self.runs += 1
        return self.script.popleft() if self.script else Act()

    def _ended(self, act: Act) -> Response:
        if act.raises:
            raise HandlerError("the app's own fault")
        if act.body is not None:
            return Response(act.status, act.body, act.headers)
        return Response.json(act.status, {"order": self.runs}, act.headers)
