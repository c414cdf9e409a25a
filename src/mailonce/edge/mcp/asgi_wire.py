"""Ask the API in its own process: the same routes and the same checks, without a socket."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

from mailonce.client.async_driver import AsyncBody
from mailonce.client.steps import ApiAnswer, ApiRequest, LostConnectionError


class AsgiWire:
    """Sends requests of one caller to an application; `headers` prove who it is."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str], *, is_local: bool = False) -> None:
        self._app = app
        self._headers = headers
        self._is_local = is_local

    async def exchange(self, request: ApiRequest, timeout_s: float) -> ApiAnswer:
        exchange = _Exchange(request.body)
        try:
            async with asyncio.timeout(timeout_s):
                await self._app(self._scope(request), exchange.receive, exchange.send)
        except TimeoutError as error:
            raise LostConnectionError("the API did not answer") from error
        return exchange.answer()

    async def open(self, request: ApiRequest, timeout_s: float) -> tuple[ApiAnswer, AsyncBody]:
        del request, timeout_s
        raise LostConnectionError("there are no streams within the process")

    async def close(self) -> None:
        """Nothing is open."""

    def _scope(self, request: ApiRequest) -> dict[str, Any]:
        path, _, query = request.path.partition("?")
        headers = {
            **self._headers,
            **request.headers,
            "Host": "mailonce",
            "Content-Length": str(len(request.body)),
        }
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
            ],
            "client": None,
            "server": None,
            "state": {},
        }
        if self._is_local:
            scope["mailonce.local"] = True
        return scope


class _Exchange:
    """One request and what is answered."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []

    async def receive(self) -> Message:
        if self._body is None:
            # The caller stays for as long as the call lasts; who is cancelled cancels this, too.
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message.get("headers", ())
            }
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))

    def answer(self) -> ApiAnswer:
        if not self._status:
            raise LostConnectionError("the API did not answer")
        return ApiAnswer(self._status, self._headers, b"".join(self._parts))
