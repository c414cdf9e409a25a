"""Wait for an answer only as long as its client does."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")


async def until_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """Run `work`, and cancel it when the client hangs up; then None, which nobody reads."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    """Return when the client has hung up; its body, if it has one, was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
