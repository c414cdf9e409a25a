"""`/mcp`: loaded with the first request, since few servers have agents and it takes a while."""

import asyncio
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce import __version__
from mailonce.errors import MissingError

if TYPE_CHECKING:
    from mailonce.edge.mcp.http_door import McpDoor

PATH = "/mcp"


class McpRoute:
    """The door for agents, in front of the API that it asks."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._door: McpDoor | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises: MissingError where the extra is not installed.
        """
        async with self._loading:
            if self._door is None:
                self._door = await asyncio.to_thread(self._load)
        await self._door.serve(scope, receive, send)

    def _load(self) -> "McpDoor":
        try:
            from mailonce.edge.mcp.http_door import McpDoor  # noqa: PLC0415 - see above
        except ModuleNotFoundError as error:
            raise MissingError(
                f"{error.name} is missing on this server; install it: pip install 'mailonce[mcp]'"
            ) from error
        return McpDoor(self._api, version=__version__)
