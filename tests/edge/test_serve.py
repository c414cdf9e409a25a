"""The listening socket: how quickly new clients get in."""

import asyncio
import contextlib
import re
import socket
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
import uvloop
from fastapi.openapi.utils import get_openapi

from mailonce.edge.cli.listeners import ACCEPTS_PER_TURN, bind, listen, sockets_of
from mailonce.edge.http.app import build_app
from mailonce.errors import ConfigError
from mailonce.settings import Settings
from mailonce.wiring import build_service
from tests.commands import Shell

CLIENTS = 64


def test_several_new_clients_are_taken_in_one_turn_of_the_event_loop() -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=CLIENTS))
        for _ in range(CLIENTS):
            stack.enter_context(socket.create_connection(listener.getsockname()))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            turns = runner.run(turns_until_all_are_in(listener))

    assert turns <= 2 * CLIENTS / ACCEPTS_PER_TURN


def test_of_two_that_bound_one_port_the_second_is_told_so_when_it_listens() -> None:
    with bind("127.0.0.1", 0, option="--port") as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port, option="--port") as second:
            listen(first, 1, option="--port")

            with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{port} .*--port"):
                listen(second, 1, option="--port")


async def turns_until_all_are_in(listener: socket.socket) -> int:
    loop = asyncio.get_running_loop()
    inside: list[asyncio.BaseTransport] = []

    class Client(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            inside.append(transport)

    servers = [await loop.create_server(Client, sock=one) for one in sockets_of(listener)]
    turns = 0
    while len(inside) < CLIENTS:
        turns += 1
        assert turns < 100 * CLIENTS, "every client that waits gets in"
        await asyncio.sleep(0)
    for one in inside:
        one.close()
    for server in servers:
        server.close()
        await server.wait_closed()
    return turns


async def test_the_api_is_described_once_for_all_who_ask_at_once(tmp_path: Path) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    app = build_app(service)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")
    with patch("fastapi.applications.get_openapi", wraps=get_openapi) as described:
        answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(20)))

    await service.database.close()
    assert {answer.status_code for answer in answers} == {200}
    assert described.call_count == 1


async def test_the_address_that_the_greeting_shows_has_a_page(tmp_path: Path) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(build_app(service)), base_url="http://x"
    )

    page = await client.get("/")
    links = re.findall(r'(?:href|src)="(/[^"]*)"', page.text)
    answers = {link: (await client.get(link)).status_code for link in links if link != "/readyz"}

    await service.database.close()
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert {"/docs", "/healthz", "/metrics"} <= set(links)
    assert set(answers.values()) == {200}


async def test_a_worker_asks_for_a_webhook_that_reaches_it_again(tmp_path: Path) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    transport = httpx.ASGITransport(build_app(service, is_door=False))
    client = httpx.AsyncClient(transport=transport, base_url="http://x")

    answers = [await client.post(path, json={}) for path in ("/in/main", "/in/main/token")]

    await service.database.close()
    assert [one.status_code for one in answers] == [503, 503]
    assert answers[0].headers["Retry-After"] == "2"
    assert "its `roles` have no door" in answers[0].json()["detail"]


async def test_a_webhook_for_no_source_is_told_where_the_address_of_each_stands(
    tmp_path: Path,
) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(build_app(service)), base_url="http://x"
    )

    answer = await client.post("/in/pm", json={})

    await service.database.close()
    assert answer.status_code == 404
    assert answer.json()["detail"] == (
        "there is no source 'pm' at this address; `mailonce source list` shows the URL of each, "
        "which ends in its id in another workspace than the default one; "
        "`mailonce source add` makes one"
    )


async def test_a_monitor_may_ask_with_head(tmp_path: Path) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    await service.start()
    app = build_app(service)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")

    answers = [(await client.head(path)).status_code for path in ("/healthz", "/readyz", "/")]

    await service.stop()
    assert answers == [200, 200, 200]


async def test_a_method_that_a_path_has_not_is_answered_with_all_that_it_has(
    tmp_path: Path,
) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    app = build_app(service)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")
    paths = (await client.get("/openapi.json")).json()["paths"]
    named = {path: re.sub(r"{\w+}", "x", path) for path in paths if not path.startswith("/in/")}

    answers = {path: await client.options(url) for path, url in named.items()}

    await service.database.close()
    assert {answer.status_code for answer in answers.values()} == {405}
    allowed = {path: set(one.headers["Allow"].split(", ")) for path, one in answers.items()}
    assert allowed["/v1/routes"] == {"GET", "POST"}
    described = {path: {name.upper() for name in paths[path]} for path in named}
    assert {path: described[path] - allowed[path] for path in named} == {
        path: set() for path in named
    }


async def test_a_process_that_is_no_door_says_what_it_is(tmp_path: Path) -> None:
    service = await build_service(Settings(data_dir=tmp_path))
    app = build_app(service, is_door=False)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x")

    home, health = await client.get("/"), await client.get("/healthz")
    events, send = await client.get("/v1/events"), await client.post("/v1/sends", json={})

    await service.database.close()
    assert (home.status_code, health.status_code) == (200, 200)
    assert "has no role `door`" in home.text
    for answer in (events, send):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:mailonce:missing")
        assert "has no role `door`" in answer.json()["detail"]


def test_an_app_in_which_nothing_is_registered_is_named_at_the_start(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    (shell.folder / "shop.py").write_text("import mailonce\nhandlers = mailonce.Handlers()\n")
    shell.env["MAILONCE_APP"] = "shop:handlers"

    with shell.serving():
        log = (shell.folder / "server.log").read_text()

    assert "app_without_handlers" in log
    assert "write `@handlers.on()` above one" in log


def test_a_second_server_of_a_folder_is_told_that_the_first_one_runs(tmp_path: Path) -> None:
    shell = Shell(tmp_path)

    with shell.serving() as url:
        port = url.rpartition(":")[2]
        same = shell.run("serve", "--port", port)
        other = shell.run("serve", "--port", port, "--data-dir", "other")

    assert same.code == other.code == 2
    assert same.err == (
        f"mailonce: a mailonce server runs in {str(shell.data_dir)!r} already, and "
        f"127.0.0.1:{port} is taken; "
        "stop it, or choose another folder with --data-dir and another port with --port\n"
    )
    assert other.err.startswith(f"mailonce: cannot listen on 127.0.0.1:{port} ")
