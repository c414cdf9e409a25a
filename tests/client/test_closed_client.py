"""A client that was closed says so, instead of opening what nobody closes."""

import pytest

from mailonce import AsyncClient, Client
from mailonce.errors import ConfigError


def test_a_closed_client_is_refused() -> None:
    with Client("http://127.0.0.1:9", "key", retry_s=0) as client:
        pass

    with pytest.raises(ConfigError, match="this client is closed; make a new one"):
        client.find_access()


async def test_a_closed_client_that_is_awaited_is_refused() -> None:
    async with AsyncClient("http://127.0.0.1:9", "key", retry_s=0) as client:
        pass

    with pytest.raises(ConfigError, match="this client is closed; make a new one"):
        await client.find_access()
    with pytest.raises(ConfigError, match="this client is closed"):
        await client.wait_for_message("a@b.example", timeout_s=1)
