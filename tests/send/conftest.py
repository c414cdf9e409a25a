"""An office on each database."""

from collections.abc import AsyncIterator

import pytest_asyncio

from mailonce.store.dialects.contract import Database
from tests.send.office import Office


@pytest_asyncio.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    made = await Office(database).open()
    try:
        yield made
    finally:
        await made.close()
