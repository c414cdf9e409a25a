"""MCP with the official client: over HTTP and over stdio, per scope, across restarts."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.harness import ADMIN_KEY, HTTP, Server, running
from tests.forking import PYTHONPATH
from tests.servers import free_port

SIX = [
    "open_expectation",
    "await_artifact",
    "consume_artifact",
    "report_result",
    "may_resend",
    "explain_expectation",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("mcp")
    database = folder / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    with running(
        Server(folder / "server", f"sqlite:///{database}", "", smtp_port=free_port())
    ) as started:
        yield started


def key_of(server: Server, scope: str) -> str:
    made = server.api("/v1/keys", method="POST", json={"name": scope, "scope": scope}).json()
    return str(made["key"])


@asynccontextmanager
async def over_http(server: Server, key: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, verify=False) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), **options) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(server: Server, key: str, **options: Any) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mailonce", "mcp"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": PYTHONPATH,
            "MAILONCE_URL": server.url,
            "MAILONCE_KEY": key,
        },
    )
    async with Client(stdio_client(parameters), **options) as client:
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_are_those_of_the_key(server: Server, mode: str) -> None:
    names = {}
    for scope in ("agent", "reader", "operator", "sender"):
        async with over_http(server, key_of(server, scope), mode=mode) as client:
            names[scope] = [tool.name for tool in (await client.list_tools()).tools]

    assert names["agent"] == SIX
    assert names["operator"] == [*SIX, "list_messages", "read_message"]
    assert names["reader"] == [
        "await_artifact",
        "explain_expectation",
        "list_messages",
        "read_message",
    ]
    assert names["sender"] == []


async def test_the_command_offers_the_same_tools(server: Server) -> None:
    async with over_stdio(server, key_of(server, "agent")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == SIX


def test_a_stranger_is_told_so(server: Server) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    for headers in ({}, {"Authorization": "Bearer mok_nobody"}):
        answer = HTTP.post(f"{server.url}/mcp", json=body, headers=headers)
        assert answer.status_code == 401, answer.text
        assert HTTP.get(f"{server.url}/mcp", headers=headers).status_code == 401
    allowed = {"Authorization": f"Bearer {ADMIN_KEY}"}
    assert HTTP.post(f"{server.url}/mcp", content=b"x" * 70_000, headers=allowed).is_client_error


def test_a_key_can_ask_what_it_may_do(server: Server) -> None:
    headers = {"Authorization": f"Bearer {key_of(server, 'agent')}"}

    answer = HTTP.get(f"{server.url}/v1/access", headers=headers)

    assert answer.json()["scope"] == "agent"
