"""uvicorn's HTTP protocol, with one system call per answer.

uvicorn writes an answer's head and its body one after the other, each a call into the kernel. Here
what is written within one turn of the event loop leaves together, at the end of that turn.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class GatheringProtocol(HttpToolsProtocol):
    """Hands uvicorn a transport that gathers what is written."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection."""
        super().connection_made(_Gathering(transport, self.loop))  # type: ignore[arg-type]


class _Gathering:
    """A transport whose writes wait for the end of the turn; all else passes through."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            self._transport.write(data)
