"""Many clients at once, each keeping what it heard."""

import asyncio
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.acceptance.harness import signed


@dataclass
class Heard:
    """What the clients heard: the ids that were acknowledged, and every status."""

    acknowledged: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    broken: int = 0
    slowest_s: float = 0.0


async def post_all(
    urls: Iterable[str],
    bodies: Iterable[dict[str, Any]],
    *,
    clients: int = 16,
    heard: Heard | None = None,
    until: Callable[[], bool] = lambda: False,
) -> Heard:
    """Post every body once, from several clients, to the given doors in turn."""
    heard = Heard() if heard is None else heard
    doors, waiting = list(urls), iter(bodies)
    loop = asyncio.get_running_loop()

    async def client(session: aiohttp.ClientSession) -> None:
        for body in waiting:
            if until():
                return
            raw = json.dumps(body).encode()
            url = f"{random.choice(doors)}/in/main"
            began = loop.time()
            try:
                async with session.post(url, data=raw, headers=signed(raw)) as answer:
                    reply = await answer.json(content_type=None)
            except (TimeoutError, aiohttp.ClientError, ConnectionError):
                heard.broken += 1
                continue
            heard.slowest_s = max(heard.slowest_s, loop.time() - began)
            heard.codes.append(answer.status)
            if answer.status == 200:
                heard.acknowledged.append(body["id"])
                heard.statuses.append(reply["status"])

    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))
    return heard
