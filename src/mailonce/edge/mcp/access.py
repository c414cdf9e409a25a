"""Who calls: asked of the API, which knows the key."""

from mailonce.client.async_client import AsyncClient
from mailonce.core.access import Scope
from mailonce.edge.mcp.server import McpCaller


async def caller_of(client: AsyncClient) -> McpCaller:
    """Ask what the key of a client may do.

    Raises: MailonceError where it is not known.
    """
    shown = await client.find_access()
    return McpCaller(
        client=client,
        scope=Scope(str(shown["scope"])),
        is_child=shown.get("expectation") is not None,
    )
