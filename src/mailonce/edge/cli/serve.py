"""`mailonce serve`: run the service until it is told to stop."""

import asyncio
import contextlib
import functools
import gc
import os
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import uvicorn
from rich.console import Console
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce.edge.cli.client import SOCKET_NAME, SOCKET_PATH_MAX
from mailonce.edge.http.app import build_app
from mailonce.edge.http.protocol import DoorProtocol, Turn
from mailonce.errors import ConfigError
from mailonce.handlers import Handlers, load_handlers
from mailonce.service import Service
from mailonce.settings import Role, Settings
from mailonce.telemetry import start_logging
from mailonce.wiring import (
    add_worker,
    apply_handlers,
    apply_settings,
    build_service,
    handler_runner,
)

DRAIN_S = 20
BACKLOG = 4096
GC_OBJECTS = 20_000
LOOKUPS = 64


def serve(settings: Settings, handlers: Handlers | None = None) -> None:
    """Run until SIGTERM or SIGINT, then finish what was taken.

    `handlers` are those of a program that embeds the server, in place of those of `app`.
    """
    if handlers is None:
        handlers = load_handlers(settings.app) if settings.app else Handlers()
    start_logging(json=settings.log_format == "json")
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_serve(settings, handlers))


def _new_loop() -> asyncio.AbstractEventLoop:
    # Names are looked up in threads, four by default: so few dead names would delay all others.
    os.environ.setdefault("UV_THREADPOOL_SIZE", str(LOOKUPS))
    import uvloop  # noqa: PLC0415 - only a server pays for it

    return uvloop.new_event_loop()


async def _serve(settings: Settings, handlers: Handlers) -> None:
    service = await build_service(settings)
    add_worker(service, settings, handler_runner(service, handlers))
    try:
        made = await apply_settings(service, settings)
        await apply_handlers(service, handlers)
        listener = _listen(settings.host, settings.port)
        await service.start()
        # Whoever reads the greeting may connect at once: from here on they are only kept waiting.
        listener.listen(BACKLOG)
        _greet(listener, made)
        is_door = settings.has_role(Role.DOOR)
        app = build_app(service, is_door=is_door)
        _calm_collector()
        with _local_socket(settings.data_dir) if is_door else contextlib.nullcontext() as door:
            shown = service if is_door else None
            servers = [(_Server(_config(app, shown)), listener)]
            if door is not None:
                servers.append((_Server(_config(_mark_local(app), shown)), door))
            _stop_on_signals([server for server, _ in servers], service.polls.release)
            await asyncio.gather(*(server.serve([open_]) for server, open_ in servers))
    finally:
        await service.stop()


def _calm_collector() -> None:
    """Look for cycles seldom: hundreds of arrivals wait for a commit, and each dies without one."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_OBJECTS, 20, 50)


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again at its end, before we have drained."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _stop_on_signals(servers: list[_Server], release: Callable[[], None]) -> None:
    """Stop at the first signal; at the second, without waiting for requests under way.

    `release` ends those that only wait for something to happen.
    """

    def stop() -> None:
        release()
        for server in servers:
            server.force_exit = server.should_exit
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def _config(app: ASGIApp, service: Service | None) -> uvicorn.Config:
    """Take arrivals the short way, unless this process is no door and has no `service` to show."""
    protocol = service and functools.partial(DoorProtocol, service=service, turn=Turn(service))
    return uvicorn.Config(
        app,
        http=protocol or "httptools",  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=DRAIN_S,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port"
        ) from error
    return listener


@contextlib.contextmanager
def _local_socket(data_dir: Path) -> Iterator[socket.socket | None]:
    """Open a socket for this user's own command line; file permissions are its password."""
    path = data_dir.absolute() / SOCKET_NAME
    if len(str(path)) > SOCKET_PATH_MAX:
        yield None
        return
    path.unlink(missing_ok=True)
    door = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        door.bind(str(path))
    finally:
        os.umask(mask)
    try:
        yield door
    finally:
        door.close()
        path.unlink(missing_ok=True)


def _mark_local(app: ASGIApp) -> ASGIApp:
    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        scope["mailonce.local"] = True
        await app(scope, receive, send)

    return marked


def _greet(listener: socket.socket, made: Iterable[tuple[str, str]]) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    console = Console(stderr=True, highlight=False)
    console.print(f"[bold]mailonce[/bold] listens at {url} · API at {url}/docs")
    for what, secret in made:
        console.print(f"{what}, shown this once: [bold]{secret}[/bold]")
