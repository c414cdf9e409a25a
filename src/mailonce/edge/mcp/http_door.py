"""`/mcp`: the tools over streamable HTTP. Each request stands alone, and proves who sends it."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce.client.async_client import AsyncClient
from mailonce.edge.mcp.access import caller_of
from mailonce.edge.mcp.asgi_wire import AsgiWire
from mailonce.edge.mcp.server import McpCaller, RequestContext, build_server

REQUEST_BYTES_MAX = 64 << 10
CALLER = "mailonce.mcp_caller"
_IDENTITY = ("authorization", "mailonce-workspace")


class McpDoor:
    """Serves `/mcp` from the routes of an application in the same process."""

    def __init__(self, api: ASGIApp, *, version: str) -> None:
        self._api = api
        self._sessions = StreamableHTTPSessionManager(
            build_server(_find_caller, version=version),
            stateless=True,
            json_response=True,
            # A page that tricks a browser into asking has no key, and is refused.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=REQUEST_BYTES_MAX,
        )
        self._stack = AsyncExitStack()
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises: MailonceError where the caller is not known.
        """
        await self._start()
        request = Request(scope)
        headers = {name: request.headers[name] for name in _IDENTITY if name in request.headers}
        wire = AsgiWire(self._api, headers, is_local="mailonce.local" in scope)
        scope[CALLER] = await caller_of(AsyncClient("http://mailonce", wire=wire, retry_s=0))
        if request.method != "POST":
            # Nothing ever comes in the stream that GET asks for, and it would never end.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        await self._sessions.handle_request(scope, receive, send)

    async def _start(self) -> None:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        await self._ready.wait()

    async def _run(self) -> None:
        """Hold the manager's task group open for as long as the process lives."""
        async with self._sessions.run():
            self._ready.set()
            await asyncio.Event().wait()


async def _find_caller(context: RequestContext) -> McpCaller:
    request: Any = context.request
    assert request is not None, "HTTP requests are handed over"
    caller: McpCaller = request.scope[CALLER]
    return caller
