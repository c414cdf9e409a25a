"""`mailonce listen`: forward events to a local port while developing."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import orjson
import typer
from rich.console import Console
from rich.text import Text

from mailonce.core.deliveries.signing import check_secret, new_secret
from mailonce.edge.cli.board import Lines, Screen, View
from mailonce.edge.cli.client import (
    ApiSession,
    ServerAddress,
    open_client,
    verification_of,
)
from mailonce.edge.cli.command import AsJson, ConfigFile, DataDir, Key, Url, WorkspaceName
from mailonce.edge.cli.forward import TIMEOUT_S, ForwardedEvent, Forwarder, forwarded_event_of
from mailonce.edge.cli.local_socket import find_socket
from mailonce.edge.cli.secrets import write_private
from mailonce.errors import ConfigError, UnavailableError

POLL_WAIT_S = 20
PAGE_ROWS = 50
LEAVE_ROWS = 1_000
LEAVE_PAGES = 20
AWAY_S = 1.0
PREFIX = "listen-"
KEPT_IN = "listen-secret.txt"
# What terminals send for the arrows; j and k are for those whose do not.
PRESSES = {"\x1b[A": "up", "\x1bOA": "up", "k": "up", "\x1b[B": "down", "\x1bOB": "down",
           "j": "down", "r": "again", "q": "quit"}  # fmt: skip
_PRESS = re.compile("|".join(re.escape(one) for one in PRESSES))

Several = list[str] | None


def listen(
    to: Annotated[str, typer.Argument(metavar="PORT|URL", help="where your application listens")],
    *,
    path: Annotated[str, typer.Option(help="path to post to")] = "/",
    source: Annotated[Several, typer.Option(help="only of this source; may be repeated")] = None,
    event: Annotated[Several, typer.Option(help="only this type; may be repeated")] = None,
    secret: Annotated[
        str | None, typer.Option(help="whsec_… to sign with; default: made once, and kept")
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    url: Url = None,
    key: Key = None,
    workspace: WorkspaceName = None,
    json: AsJson = False,
) -> None:
    """Forward events to a port of this machine, signed as deliveries are, until you press q."""
    target = ServerAddress(config=config, data_dir=data_dir, url=url, key=key, workspace=workspace)
    endpoint = _endpoint(to, path)
    secret = secret or _kept_secret(target)
    check_secret(secret)
    wanted = {"kind": "poll", "sources": source or [], "events": event or ["*"]}
    asyncio.run(_listen(target, wanted, endpoint, secret, json=json))


async def _listen(
    target: ServerAddress, wanted: dict[str, Any], endpoint: str, secret: str, *, json: bool
) -> None:
    _demand_server(target)
    console = Console(highlight=False)
    heading = Text.assemble(
        ("mailonce listen", "bold"), f" → {endpoint}\n", ("signed with ", "dim"), secret
    )
    is_screen = console.is_terminal and sys.stdin.isatty() and not json
    stop = asyncio.Event()
    # Signals are handled before the route is made, or it would not be removed.
    with _stopping(stop):
        async with (
            open_client(target) as client,
            _route(client, wanted) as route,
            httpx.AsyncClient(
                timeout=TIMEOUT_S, trust_env=False, verify=verification_of(endpoint, target.config)
            ) as http,
        ):
            # What is announced holds: from the commit of its route on, no event is missed.
            if json:
                announced = orjson.dumps({"endpoint": endpoint, "secret": secret})
                sys.stdout.write(announced.decode() + "\n")
                sys.stdout.flush()
            elif not is_screen:
                Console(stderr=True, highlight=False, soft_wrap=True).print(heading)
            with Screen(console, heading) if is_screen else Lines(json=json) as view:
                forwarder = Forwarder(http, endpoint, secret, view.change)
                with _keys(view, forwarder, stop):
                    await _until(stop, _forward(client, route, forwarder, view))


async def _forward(client: ApiSession, route: str, forwarder: Forwarder, view: View) -> None:
    """Poll, post, acknowledge, for ever; what was not acknowledged is polled again."""
    while True:
        try:
            page = await client.get("routes", route, "events", wait=POLL_WAIT_S, limit=PAGE_ROWS)
            view.report("")
            for item in page["data"]:
                copy = forwarded_event_of(item)
                view.add(copy)
                await forwarder.forward(copy)
                await client.post("routes", route, "acknowledgements", body={"cursor": copy.cursor})
        except UnavailableError as error:
            view.report(f"{error}; trying again")
            await asyncio.sleep(AWAY_S)


async def _until(stop: asyncio.Event, work: Any) -> None:
    """Run `work` until it fails or the user quits."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        await working
    working.cancel()
    await asyncio.gather(working, stopping, return_exceptions=True)


@contextlib.asynccontextmanager
async def _route(client: ApiSession, wanted: dict[str, Any]) -> AsyncIterator[str]:
    """Make a polled route for as long as this process runs; remove those of ended processes."""
    ours = f"{PREFIX}{re.sub(r'[^A-Za-z0-9]', '', socket.gethostname())[:40]}-"
    for known in (await client.get("routes"))["data"]:
        _, _, number = known["name"].rpartition("-")
        if known["name"].startswith(ours) and number.isdecimal() and not _runs(int(number)):
            await _leave(client, known["id"])
    made = await client.post("routes", body={"name": f"{ours}{os.getpid()}", **wanted})
    try:
        yield made["id"]
    finally:
        # A server that is away keeps it; the next start here removes it.
        with contextlib.suppress(UnavailableError):
            await _leave(client, made["id"])


async def _leave(client: ApiSession, route: str) -> None:
    """Remove a route; its pending events are acknowledged first, or they would be dead letters."""
    for _ in range(LEAVE_PAGES):
        page = await client.get("routes", route, "events", limit=LEAVE_ROWS)
        await client.post("routes", route, "acknowledgements", body={"cursor": page["cursor"]})
        if not page["data"]:
            break
    await client.delete("routes", route)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def _stopping(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _keys(view: View, forwarder: Forwarder, stop: asyncio.Event) -> Iterator[None]:
    """Read single keys from the terminal, where there is a board to use them on."""
    if not isinstance(view, Screen):
        yield
        return
    running: set[asyncio.Task[None]] = set()

    def redeliver(event: ForwardedEvent) -> None:
        task = asyncio.create_task(forwarder.redeliver(event))
        running.add(task)
        task.add_done_callback(running.discard)

    def press(what: str) -> None:
        chosen = view.board.chosen
        match what:
            case "quit":
                stop.set()
            case "again" if chosen is not None:
                redeliver(chosen)
            case "up" | "down":
                view.board.move(-1 if what == "up" else 1)
                view.draw()

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    loop = asyncio.get_running_loop()
    tty.setcbreak(handle)
    loop.add_reader(handle, _read, handle, press)
    try:
        yield
    finally:
        loop.remove_reader(handle)
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def _read(handle: int, press: Callable[[str], None]) -> None:
    text = os.read(handle, 1024).decode("utf-8", "replace")
    for keys in _PRESS.findall(text):
        press(PRESSES[keys])


def _kept_secret(target: ServerAddress) -> str:
    """Give the secret of the last run, so that your application need not be told of another.

    It is beside the data of a server here, and in your own configuration for one elsewhere.
    """
    folder = target.settings().data_dir if target.url is None else _config_folder()
    path = folder / KEPT_IN
    with contextlib.suppress(FileNotFoundError):
        return path.read_text().strip()
    folder.mkdir(parents=True, exist_ok=True)
    write_private(path, new_secret(os.urandom(32)))
    return path.read_text().strip()


def _config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mailonce"


def _endpoint(to: str, path: str) -> str:
    if to.isascii() and to.isdecimal():
        to = f"http://127.0.0.1:{to}"
    if not to.startswith(("http://", "https://")):
        raise ConfigError(
            f"`{to}` is neither a port nor a URL; write 3000 or http://127.0.0.1:3000"
        )
    return to.rstrip("/") + "/" + path.lstrip("/") if path != "/" else to


def _demand_server(target: ServerAddress) -> None:
    """Check that there is a server: without one, no event arrives."""
    if target.url is None and find_socket(target.settings().data_dir) is None:
        raise UnavailableError(
            "no mailonce server runs here; start it with `mailonce serve`, or name one with --url"
        )
