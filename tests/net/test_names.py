"""Names: a name server that is slow for some names does not hold up the others."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from mailonce.net import names
from mailonce.net.names import SLOW_THREADS, THREADS, SystemResolver


async def test_names_that_were_slow_leave_the_threads_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released, answers = threading.Event(), 0
    known = socket.getaddrinfo

    def getaddrinfo(host: str, *rest: Any, **named: Any) -> Any:
        nonlocal answers
        if host.startswith("slow"):
            released.wait(100)
            answers += 1
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return known("127.0.0.1", *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(names, "SLOW_S", 0.0)
    resolver = SystemResolver()
    slow = [f"slow-{number}.example" for number in range(THREADS + SLOW_THREADS)]
    try:
        released.set()
        await asyncio.gather(*map(resolver.resolve, slow), return_exceptions=True)
        released.clear()
        again = [asyncio.ensure_future(resolver.resolve(host)) for host in slow]

        addresses = await asyncio.wait_for(resolver.resolve("quick.example"), 60)

        assert addresses == ("127.0.0.1",)
        assert answers == len(slow), "the slow ones still wait"
        released.set()
        await asyncio.gather(*again, return_exceptions=True)
    finally:
        released.set()
        resolver.close()
