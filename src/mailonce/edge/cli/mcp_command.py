"""`mailonce mcp`: tools for agents over standard input and output."""

import asyncio
import ssl

from mailonce.client.async_client import AsyncClient
from mailonce.edge.cli.command import Key, Url
from mailonce.errors import ConfigError
from mailonce.settings import read_net_settings
from mailonce.tls import client_context

RETRY_S = 60.0
# A host shows nothing before it has the tools, and tells nobody why.
LIST_RETRY_S = 3.0


def mcp(*, url: Url = None, key: Key = None) -> None:
    """Offer codes and links of mail to an agent as tools (MCP over stdio)."""
    if key is None:
        raise ConfigError("`--key` is missing; make one with `mailonce key add --scope agent`")
    is_https = url is not None and url.lower().startswith("https:")
    tls = client_context(read_net_settings().ca_file) if is_https else None
    asyncio.run(_serve(url, key, tls))


async def _serve(url: str | None, key: str, tls: ssl.SSLContext | None) -> None:
    try:
        from mailonce.edge.mcp.stdio import serve_stdio  # noqa: PLC0415 - an extra brings it
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is missing; install it: pip install 'mailonce[mcp]'"
        ) from error
    async with (
        AsyncClient(url, key, retry_s=RETRY_S, tls=tls) as client,
        AsyncClient(url, key, retry_s=LIST_RETRY_S, tls=tls) as quick_client,
    ):
        await serve_stdio(client, quick_client=quick_client)
