"""`mailonce mcp`: the tools over standard input and output, for a server anywhere."""

from mcp.server.stdio import stdio_server

from mailonce import __version__
from mailonce.client.async_client import AsyncClient
from mailonce.edge.mcp.access import caller_of
from mailonce.edge.mcp.server import McpCaller, RequestContext, build_server


async def serve_stdio(client: AsyncClient, *, quick_client: AsyncClient) -> None:
    """Serve until standard input ends; a server that restarts meanwhile is asked again.

    Tools are called by `client`, which is patient, and listed by `quick_client`.
    """

    async def find_caller(context: RequestContext) -> McpCaller:
        del context
        return await caller_of(client)

    async def find_lister(context: RequestContext) -> McpCaller:
        del context
        return await caller_of(quick_client)

    server = build_server(find_caller, find_lister=find_lister, version=__version__)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
