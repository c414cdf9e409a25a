"""The gate as ASGI middleware: for Starlette, FastAPI and every other ASGI framework.

The response is held back until the work and its record are committed; only then does it leave.
In atomic mode the app must work with `passage_of(scope).tx`; otherwise its change commits by
itself, and mode `lease` is the honest one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from mailonce.errors import ConfigError, LeaseLostError, UnavailableError
from mailonce.gate.async_gate import AsyncGate, AsyncPassage
from mailonce.gate.base import demand_gate
from mailonce.gate.rules.answer import Answer
from mailonce.gate.rules.http import Request, Response

log = logging.getLogger("mailonce.gate")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PASSAGE = "mailonce.gate.passage"
# Where FastAPI keeps what ends dependencies with `yield`, after the response has left.
DEPENDENCIES = "fastapi_inner_astack"
PATHS_IN_LOG_MAX = 100
# A lease is renewed well before it ends: two renewals may fail.
RENEWALS_PER_LEASE = 3
NO_GATE = "the middleware needs a gate; write `GateMiddleware(app, gate)`"
BLOCKING = "this app awaits, and Gate blocks; use AsyncGate with an async store"


class GateMiddleware:
    """Puts a gate before an app; `applies` picks the requests, the others pass untouched.

    `defers`: the app does not run at all; the request is owed to an outbox worker, and 202 says so.
    """

    def __init__(
        self,
        app: App,
        gate: AsyncGate[Any],
        *,
        applies: Callable[[Scope], bool] | None = None,
        defers: bool = False,
    ) -> None:
        demand_gate(gate, written="GateMiddleware(app, {})", gate="AsyncGate", otherwise=NO_GATE)
        if not gate.awaits:
            raise ConfigError(BLOCKING)
        self.app = app
        self._gate = gate
        self._applies = applies
        self._defers = defers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._is_gated(scope):
            await self.app(scope, receive, send)
            return
        body = await _body(receive, self._gate.rules.policy.body_bytes_max)
        if body is None:
            # The sender disconnected before the end of its body.
            return
        enter = self._gate.defer if self._defers else self._gate.enter
        passage = await enter(request_of(scope, body))
        if isinstance(passage, Answer):
            await send_response(send, passage.response)
            return
        await self._serve(passage, scope, body, receive, send)

    def _is_gated(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["method"] not in self._gate.rules.policy.methods:
            return False
        return self._applies is None or self._applies(scope)

    async def _serve(
        self, passage: AsyncPassage[Any], scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        answering = _Answering(passage, scope, send, self._gate.rules.policy.held_bytes_max)
        scope[PASSAGE] = passage
        _without_unknown_ways(scope)
        renewing = None
        if passage.leased:
            renewing = asyncio.create_task(_keep(passage, self._gate.rules.policy.lease_s))
        try:
            await self.app(scope, _replayed(body, receive), answering.take)
        except LeaseLostError:
            if answering.done:
                raise
            answering.done = True
            await send_response(send, (await passage.yield_to_holder()).response)
        finally:
            if renewing is not None:
                renewing.cancel()
            if not answering.done:
                # It raised, was cancelled, or ended without a whole response.
                await asyncio.shield(passage.abandon())
        if not answering.done:
            raise RuntimeError("the app ended without a whole response; its work was undone")


class _Answering:
    """Collects the app's response; with its last byte the passage ends and the answer leaves."""

    def __init__(
        self, passage: AsyncPassage[Any], scope: Scope, send: Send, bytes_max: int
    ) -> None:
        self.done = False
        self._passage = passage
        self._scope = scope
        self._send = send
        self._start: Message = {}
        self._chunks: list[bytes] = []
        self._bytes_left = bytes_max

    async def take(self, message: Message) -> None:
        """Stand in for the server's `send`.

        Raises: ConfigError for a response that cannot be held back; its work is then undone.
        """
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] != "http.response.body":
            raise ConfigError(
                f"the gate cannot hold back {message['type']!r} until the commit; send the "
                "response as http.response.body, or serve it by a route without a gate"
            )
        elif not self.done:
            self._collect(message.get("body", b""))
            if not message.get("more_body", False):
                warn_of_dependencies(self._scope)
                await self._finish()

    def _collect(self, chunk: bytes) -> None:
        self._bytes_left -= len(chunk)
        if self._bytes_left < 0:
            self._chunks.clear()
            raise ConfigError(
                "the response is above `held_bytes_max`, and must be held back until the commit; "
                "raise that limit, or serve it by a route without a gate"
            )
        self._chunks.append(chunk)

    async def _finish(self) -> None:
        self.done = True
        headers = tuple(
            [(str(k, "latin-1"), str(v, "latin-1")) for k, v in self._start.get("headers", ())]
        )
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        made = Response(self._start["status"], body, headers)
        # The commit is not left half-way because the client hangs up.
        answer = await asyncio.shield(self._passage.finish(made))
        if answer.response is made:
            await self._send(self._start)
            await self._send({"type": "http.response.body", "body": body})
        else:
            await send_response(self._send, answer.response)


def warn_of_dependencies(scope: Scope) -> None:
    """Log, once for a path, that dependencies of FastAPI end after the gate's commit.

    Only the task that began them may end them, and background tasks and streams may still use
    them; so whatever one of these commits at its end is no part of what the gate records.
    """
    left = getattr(scope.get(DEPENDENCIES), "_exit_callbacks", None)
    path = scope["path"]
    if not left or path in _paths_in_log or len(_paths_in_log) >= PATHS_IN_LOG_MAX:
        return
    _paths_in_log.add(path)
    log.warning(
        "dependencies with `yield` of %s end after the gate's commit, and whatever they commit is "
        "lost in a crash between the two; write through `Depends(transaction)`, in a route of "
        "`route_class=gated(gate)` without a stream and background tasks, or end them before with "
        '`Depends(…, scope="function")`',
        path,
    )


_paths_in_log: set[str] = set()

# What a server offers beyond plain bodies, and the gate could not hold back.
_UNKNOWN_WAYS = (
    "http.response.pathsend",
    "http.response.zerocopysend",
    "http.response.trailers",
    "http.response.push",
    "http.response.early_hint",
)


def _without_unknown_ways(scope: Scope) -> None:
    """Hide them from the app, which then sends plain bodies."""
    offered = scope.get("extensions")
    if offered:
        known = {name: value for name, value in offered.items() if name not in _UNKNOWN_WAYS}
        scope["extensions"] = known


def passage_of(scope: Scope) -> AsyncPassage[Any]:
    """Give the passage of a request that came through the gate.

    Raises: ConfigError where it did not.
    """
    passage = scope.get(PASSAGE)
    if passage is None:
        raise ConfigError("this request did not come through GateMiddleware; add it to the app")
    typed: AsyncPassage[Any] = passage
    return typed


def request_of(scope: Scope, body: bytes) -> Request:
    """Read method, path and headers; under a mount, the path is the full one."""
    headers = tuple(
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    )
    return Request(
        headers=headers,
        body=body,
        method=scope["method"],
        path=scope["path"],
        query=scope.get("query_string", b"").decode("latin-1"),
    )


async def send_response(send: Send, response: Response) -> None:
    """Send a whole response, with its actual length."""
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.headers
        if name.lower() != "content-length"
    ]
    if response.status >= 200 and response.status not in (204, 304):
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


async def _body(receive: Receive, bytes_max: int) -> bytes | None:
    """Read the whole body, or one byte more than is allowed; None: the client disconnected."""
    chunks: list[bytes] = []
    size = 0
    while size <= bytes_max:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if not message.get("more_body", False):
            break
    return b"".join(chunks)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the app the body that was read, then the server's further messages."""
    is_read = False

    async def again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _keep(passage: AsyncPassage[Any], lease_s: float) -> None:
    while passage.leased and not passage.lost:
        await asyncio.sleep(lease_s / RENEWALS_PER_LEASE)
        with suppress(UnavailableError):
            await passage.renew()
