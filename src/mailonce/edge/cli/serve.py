"""`mailonce serve`: run the service until it is stopped."""

import asyncio
import contextlib
import ctypes
import errno
import functools
import gc
import os
import signal
import socket
import sys
import termios
from collections.abc import Callable, Iterator

import uvicorn
from rich.console import Console
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce.core.health.checkup import of_key_length, of_other_database
from mailonce.edge.cli.early_hangup import EarlyHangup
from mailonce.edge.cli.exits import exit_code_of
from mailonce.edge.cli.listeners import (
    ACCEPTS_PER_TURN,
    PORT_OPTION,
    address_of,
    bind,
    listen,
    raise_open_files,
    sockets_of,
)
from mailonce.edge.cli.local_socket import find_socket, open_local_socket
from mailonce.edge.cli.secrets import secret_shower
from mailonce.edge.cli.serve_smtp import FILES_SHARE, BoundSmtp, SmtpSockets, bind_smtp, build_smtp
from mailonce.edge.cli.stop_signals import StopSignals
from mailonce.edge.connections import ClientConnections
from mailonce.edge.http.app import build_app
from mailonce.edge.http.client_limits import CROWD, DoorLimits
from mailonce.edge.http.loop_turn import Turn
from mailonce.edge.http.protocol import DoorProtocol
from mailonce.errors import ConfigError, MailonceError
from mailonce.handlers import Handlers, load_handlers
from mailonce.log_lines import start_logging
from mailonce.manage.data_folder import other_database
from mailonce.manage.management import apply_handlers
from mailonce.manage.records import several
from mailonce.manage.settings_file import ShowSecret, apply_settings
from mailonce.reload import SettingsReload
from mailonce.service import Service
from mailonce.settings import Role, Settings, variables_unread
from mailonce.settings.set_variables import by_record
from mailonce.telemetry import (
    APP_WITHOUT_HANDLERS,
    DATA_DIR_SHARED,
    FILES_FEW,
    LISTENING,
    MASTER_KEY_SHORT,
    OTHER_DATABASE,
    START_FAILED,
    VARIABLE_UNKNOWN,
    log,
)
from mailonce.wiring import add_worker, build_service, handler_runner

DRAIN_S = 20
BACKLOG = 4096
GC_OBJECTS = 20_000
# How long SQLite's writer waits for the interpreter, which the event loop keeps, before it asks for
# it: several times in each batch, while all that the batch answers waits. Python's own are 5 ms;
# below 1 ms an event costs a tenth more CPU, and no more of them are taken.
SWITCH_S = 0.001
LOOKUPS = 64
# For the database, logs and whatever libraries open, beside the connections of workers.
FILES_RESERVED = 128 + ACCEPTS_PER_TURN
# As in malloc.h.
M_MMAP_THRESHOLD = -3
LARGE_BYTES = 512 << 10
HANDLERS_ADVICE = "no function is registered there; write `@handlers.on()` above one"
SHARED_ADVICE = (
    "another server runs in this folder, and commands reach one of them; give each its own data_dir"
)


def serve(
    settings: Settings,
    handlers: Handlers | None = None,
    *,
    read: Callable[[], Settings] | None = None,
    hangup: EarlyHangup | None = None,
    is_key_lost: bool = False,
) -> None:
    """Run until SIGTERM or SIGINT, then finish what was accepted.

    `handlers` are those of a program that embeds the server, in place of those of `app`. `read`
    gives the settings again, at a SIGHUP or `mailonce reload`; default: they stay as they are.
    `hangup` knows whether a SIGHUP came before; default: one that comes from now on is kept.
    `is_key_lost`: it starts though no master key opens a stored secret.
    """
    hangup = hangup or EarlyHangup()
    if handlers is None:
        handlers = load_handlers(settings.app) if settings.app else Handlers()
    start_logging(json=settings.log_format == "json", level=settings.log_level)
    if settings.app and not len(handlers):
        log.warning(APP_WITHOUT_HANDLERS, app=settings.app, advice=HANDLERS_ADVICE)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        try:
            reads = read or (lambda: settings)
            runner.run(_serve(settings, handlers, reads, hangup, is_key_lost=is_key_lost))
        except MailonceError as error:
            if settings.log_format == "text":
                raise
            log.critical(START_FAILED, code=error.code, detail=str(error))
            raise SystemExit(exit_code_of(error)) from error


def _new_loop() -> asyncio.AbstractEventLoop:
    # Names are looked up in threads, four by default: four dead names would delay all others.
    os.environ.setdefault("UV_THREADPOOL_SIZE", str(LOOKUPS))
    import uvloop  # noqa: PLC0415 - only a server pays for it

    return uvloop.new_event_loop()


async def _serve(
    settings: Settings,
    handlers: Handlers,
    read: Callable[[], Settings],
    hangup: EarlyHangup,
    *,
    is_key_lost: bool,
) -> None:
    # Before anything is made: whoever is told that a port is taken has not missed a secret.
    with contextlib.ExitStack() as bound:
        listener = _bind_door(settings)
        bound.callback(listener.close)
        smtp_sockets = bind_smtp(settings)
        if smtp_sockets is not None:
            bound.callback(smtp_sockets.close)
        service = await build_service(settings)
        for weak in of_key_length(several(settings.master_key)):
            log.warning(MASTER_KEY_SHORT, detail=weak.detail, advice=weak.advice)
        for lost in variables_unread():
            log.warning(VARIABLE_UNKNOWN, name=lost.name, advice=lost.advice)
        if (other := other_database(settings.data_dir, settings.sqlite_file)) is not None:
            finding = of_other_database(str(other), settings.database_place)
            log.warning(OTHER_DATABASE, detail=finding.detail, advice=finding.advice)
        if find_socket(settings.data_dir) is not None:
            log.warning(DATA_DIR_SHARED, path=str(settings.data_dir), advice=SHARED_ADVICE)
        show_secret = _secret_shower(settings)
        reload = SettingsReload(service, settings, read, show_secret)
        service.reload = reload.run
        service.source_variables = by_record(settings.variables, "sources")
        await _serve_on(
            settings, handlers, service, listener, smtp_sockets, hangup, is_key_lost=is_key_lost
        )


def _bind_door(settings: Settings) -> socket.socket:
    """Bind the HTTP door; a port that is taken may be that of a server of the same folder."""
    try:
        return bind(settings.host, settings.port, option=PORT_OPTION)
    except ConfigError as error:
        cause = error.__cause__
        is_taken = isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
        if not is_taken or find_socket(settings.data_dir) is None:
            raise
        folder = str(settings.data_dir.absolute())
        raise ConfigError(
            f"a mailonce server runs in {folder!r} already, and {settings.host}:{settings.port} is "
            "taken; stop it, or choose another folder with --data-dir and another port with --port"
        ) from error


async def _serve_on(
    settings: Settings,
    handlers: Handlers,
    service: Service,
    listener: socket.socket,
    smtp_sockets: SmtpSockets | None,
    hangup: EarlyHangup,
    *,
    is_key_lost: bool,
) -> None:
    add_worker(service, settings, handler_runner(service, handlers))
    smtp: BoundSmtp | None = None
    try:
        smtp = build_smtp(settings, service, smtp_sockets, files=raise_open_files())
        show_secret = _secret_shower(settings)
        await apply_settings(service.manage, settings, show_secret, is_key_lost=is_key_lost)
        await apply_handlers(service.manage, handlers)
        await service.start()
        stop_signals = StopSignals([service.stop_waiting])
        # A client that reads the greeting may connect at once: from here on it only has to wait.
        listen(listener, BACKLOG, option=PORT_OPTION)
        if smtp is not None and not await smtp.start():
            smtp = None
        is_door = settings.has_role(Role.DOOR)
        _greet(listener, smtp, settings)
        app = build_app(service, is_door=is_door)
        _calm_collector()
        if service.database.name == "sqlite":
            sys.setswitchinterval(SWITCH_S)
        _keep_large_bodies_apart()
        connections = ClientConnections(
            _limits(settings), service.metrics.door, CROWD, service.trusted_proxies
        )
        protocol = functools.partial(
            DoorProtocol,
            service=service,
            turn=Turn(service),
            connections=connections,
            is_door=is_door,
        )
        service.on_settings.append(
            lambda given: connections.use(_limits(given), tuple(given.net.trusted_proxies))
        )
        connections.start()
        with open_local_socket(settings.data_dir) if is_door else contextlib.nullcontext() as door:
            servers = [(_Server(_config(app, protocol)), sockets_of(listener))]
            if door is not None:
                servers.append((_Server(_config(_mark_local(app), protocol)), [door]))
            stop_signals.also_stop([server for server, _ in servers])
            _reload_on_hangup(service, stop_signals.stop, hangup)
            await asyncio.gather(*(server.serve(sockets) for server, sockets in servers))
        await connections.stop()
    finally:
        if smtp is not None:
            await smtp.stop()
        await service.stop()


def _secret_shower(settings: Settings) -> ShowSecret:
    is_json = settings.log_format == "json"
    return secret_shower(settings.data_dir, is_printed=settings.print_secrets, is_logged=is_json)


def _keep_large_bodies_apart() -> None:
    """Give back the memory of a large body when it is freed.

    glibc takes ever larger blocks from its heap once such a block was freed, and a heap with one
    small object at its end never shrinks again. Other libraries have no such function.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


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


def _reload_on_hangup(service: Service, stop: Callable[[], None], early: EarlyHangup) -> None:
    """Read the settings again at a SIGHUP; stop where it says that our terminal was closed.

    One that came while we started may be about a file that we had read before it was changed.
    """
    running: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        assert service.reload is not None, "a server can read its settings again"
        # What was wrong is logged.
        with contextlib.suppress(MailonceError):
            await service.reload()

    def hang_up() -> None:
        if _is_terminal_gone():
            stop()
            return
        task = asyncio.create_task(reload())
        running.add(task)
        task.add_done_callback(running.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)
    if early.is_pending:
        hang_up()


def _is_terminal_gone() -> bool:
    try:
        termios.tcgetattr(0)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False


def _config(app: ASGIApp, protocol: Callable[..., DoorProtocol]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN_S,
    )


def _limits(settings: Settings) -> DoorLimits:
    """Give the limits of the door, with no more connections than there can be open files.

    Invariant: a refused connection still gets a file, so that it can be answered.
    """
    door = settings.door
    files = raise_open_files()
    reserved = FILES_RESERVED
    if settings.has_role(Role.WORKER):
        reserved += settings.worker.concurrency
    if settings.has_role(Role.SMTP):
        reserved += min(settings.smtp.connections_max, files // FILES_SHARE)
    connections_max = min(door.connections_max, max(files - reserved, files * 2 // 5))
    if connections_max < door.connections_max:
        log.warning(FILES_FEW, files=files, connections_max=connections_max)
    return DoorLimits(
        **door.model_dump(exclude={"connections_max"}),
        connections_max=connections_max,
        body_bytes_max=settings.limits.body_bytes_max,
        send_bytes_max=settings.sends.request_bytes_max,
    )


def _mark_local(app: ASGIApp) -> ASGIApp:
    async def marked(scope: Scope, receive: Receive, send: Send) -> None:
        scope["mailonce.local"] = True
        await app(scope, receive, send)

    return marked


def _greet(listener: socket.socket, smtp: BoundSmtp | None, settings: Settings) -> None:
    url = f"http://{address_of(listener)}"
    if settings.log_format == "json":
        at = None if smtp is None else smtp.address
        log.info(LISTENING, url=url, smtp=at, dev=settings.dev)
        return
    is_door = settings.has_role(Role.DOOR)
    what = f"API at {url}/docs" if is_door else f"health at {url}/readyz, metrics at {url}/metrics"
    mail = "" if smtp is None else f" · SMTP at {smtp.address}"
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold]mailonce[/bold] listens at {url} · {what}{mail}")
    if settings.dev:
        console.print(
            "[bold reverse] --dev [/] [bold]no mail leaves this machine[/bold]: what you send goes "
            f"into an inbox here; read it at {url}/v1/inboxes/ADDRESS/messages"
        )
