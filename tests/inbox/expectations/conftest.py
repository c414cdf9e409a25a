"""A room in which expectations wait for mail."""

import pytest_asyncio

from tests.inbox.conftest import Desk
from tests.inbox.expectations.waiting_room import WaitingRoom


@pytest_asyncio.fixture
async def room(desk: Desk) -> WaitingRoom:
    return await WaitingRoom.make(desk)
