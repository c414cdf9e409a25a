"""A consumed link is opened once, by whichever way and however many ask for it at once."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mailonce import AsyncClient, Client
from mailonce.client import new_key
from tests.acceptance.expecting import SETTINGS, Agent, agent_of, deliver
from tests.acceptance.harness import Server, running
from tests.acceptance.sending import running_loop
from tests.acceptance.test_mcp import call, over_http
from tests.client.losing import LosingProxy
from tests.net.conftest import Authority, authority
from tests.servers import free_port

__all__ = ["authority"]

AT_ONCE = 20


@dataclass
class Shop:
    """An https server that confirms addresses; each answer is held until a test lets it go."""

    paths: list[str] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.paths.append(head.split(b" ", 2)[1].decode())
        self.came.set()
        await self.gate.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        writer.close()


@contextmanager
def running_shop(trusted: Authority) -> Iterator[tuple[Shop, asyncio.AbstractEventLoop]]:
    shop = Shop()
    with running_loop() as loop:
        starting = asyncio.start_server(shop.serve, "127.0.0.1", 0, ssl=trusted.server)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(30)
        shop.port = server.sockets[0].getsockname()[1]
        yield shop, loop
        loop.call_soon_threadsafe(server.close)


def consumed(server: Server, agent: Agent, token: str) -> tuple[str, str]:
    """Have a link mailed and consumed; give its expectation and the consume key."""
    opened = agent.open(kind="link", link_hosts=["shop.example/verify"])
    deliver(server, opened["address"], f"Please confirm: https://shop.example/verify?token={token}")
    assert agent.show(opened["id"], wait=25)["state"] == "ready"
    key = new_key()
    assert agent.consume(opened["id"], key).status_code == 200
    return opened["id"], key


# On SQLite tests/inbox/expectations/test_redeem.py does it, without processes.
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_link_is_opened_once_for_all_who_ask(
    database_url: str, tmp_path: Path, authority: Authority
) -> None:
    with running_shop(authority) as (shop, loop):
        net = {
            "ca_file": str(authority.ca_file),
            "hosts": {"shop.example": f"127.0.0.1:{shop.port}"},
        }
        environment = {"MAILONCE_NET": json.dumps(net)}
        server = Server(tmp_path / "s", database_url, SETTINGS, environment, smtp_port=free_port())
        with running(server):
            agent = agent_of(server)
            given = consumed(server, agent, "x1y2z3x1y2z3x1y2z3")
            with ThreadPoolExecutor(AT_ONCE) as pool:
                blocking = Client(server.url, agent.key)
                asking = [pool.submit(blocking.redeem, *given)]
                assert shop.came.wait(60)
                early = agent.call(
                    "POST", f"/v1/expectations/{given[0]}/redeem", {"consume_key": given[1]}
                )
                asking += [pool.submit(blocking.redeem, *given) for _ in range(AT_ONCE - 1)]
                others = pool.submit(asyncio.run, redeem_in_all_ways(server, agent, *given))
                loop.call_soon_threadsafe(shop.gate.set)
                outcomes = [one.result(60) for one in asking]
                awaited, tools = others.result(60)
                blocking.close()
            lost, proxied = redeem_with_a_lost_answer(server, agent)

    assert (early.status_code, early.json()["type"]) == (409, "urn:mailonce:redeeming")
    assert [(one["state"], one["status"]) for one in [*outcomes, *awaited]] == [("done", 200)] * 30
    assert [(one["status"], one["http_status"]) for one in tools] == [("done", 200)] * 5
    assert (lost, proxied["state"]) == (1, "done")
    assert shop.paths == [
        "/verify?token=x1y2z3x1y2z3x1y2z3",
        "/verify?token=lostlostlostlostlost",
    ]


async def redeem_in_all_ways(
    server: Server, agent: Agent, expectation: str, consume_key: str
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Ask ten times with the client, and five times with the tool."""
    async with (
        AsyncClient(server.url, agent.key) as client,
        over_http(server, agent.key) as tools,
    ):
        given = {"expectation": expectation, "consume_key": consume_key}
        return (
            await asyncio.gather(*(client.redeem(expectation, consume_key) for _ in range(10))),
            await asyncio.gather(*(call(tools, "redeem_link", **given) for _ in range(5))),
        )


def redeem_with_a_lost_answer(server: Server, agent: Agent) -> tuple[int, Any]:
    given = consumed(server, agent, "lostlostlostlostlost")
    with LosingProxy(server.port) as proxy, Client(proxy.url, agent.key) as client:
        proxy.lose_answer_to(b"/redeem ")
        outcome = client.redeem(*given)
        return proxy.lost, outcome
