"""How commands reach the API: a URL, the socket of a server on this machine, or no server at all.

Without a server the service is built in this process and called through the same routes, so a
command does one thing however it is run. The settings say where the database is and how it is used;
what the file would change in it waits for a server.
"""

import asyncio
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import httpx
import typer

from mailonce.client.errors_of_answers import error_of
from mailonce.client.place import check_path
from mailonce.core.id_prefix import is_short
from mailonce.edge.cli.local_socket import (
    CONNECT_TIMEOUT_S,
    find_socket,
    socket_name,
)
from mailonce.edge.cli.own_database import has_database, place_of
from mailonce.errors import (
    ConfigError,
    MailonceError,
    MissingError,
    RefusedError,
    TakenError,
    UnavailableError,
)
from mailonce.settings import Settings, read_net_settings, read_settings
from mailonce.tls import client_context, tls_fault

if TYPE_CHECKING:
    from mailonce.service import Service

# Pruning answers when it is done; everything else is quick.
ANSWER_TIMEOUT_S = 300
# How long a command waits for another one that has the database, and how often it looks.
TAKEN_WAIT_S = 5.0
TAKEN_LOOK_S = 0.1
# What the API gives at a time.
PAGE_ROWS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a command's server is, and in which workspace it acts."""

    config: Path | None = None
    data_dir: Path | None = None
    url: str | None = None
    key: str | None = None
    workspace: str | None = None
    # Whether a database may be made where there is none.
    creates: bool = True
    # Whether only a server that runs already can do it.
    needs_server: bool = False

    def settings(self) -> Settings:
        """Read the settings of a server on this machine.

        Raises: ConfigError, one sentence that names the setting.
        """
        return read_settings(self.config, data_dir=self.data_dir)


class ApiSession:
    """Asks the API; what it refuses is raised as the error that the service raised."""

    def __init__(self, http: httpx.AsyncClient, place: str, *, has_server: bool = True) -> None:
        self._http = http
        # Without one, nothing is delivered or sent while a command runs.
        self.has_server = has_server
        # Whether the last answer was that of an earlier request under the same key.
        self.is_replay = False
        # Where the server is, as people know it.
        self._place = place

    @property
    def workspace(self) -> str:
        """The workspace that an admin acts in, by id or name."""
        return str(self._http.headers.get("Mailonce-Workspace", "default"))

    def warn_without_server(self) -> None:
        """Say that what is queued now waits for a server, where none runs."""
        if not self.has_server:
            typer.echo(
                f"mailonce: no server runs in {self._place!r}: nothing is sent until "
                "`mailonce serve`",
                err=True,
            )

    def require_server(self, why: str) -> None:
        """Refuse what would wait for ever.

        Raises: RefusedError.
        """
        if not self.has_server:
            raise RefusedError(
                f"no server runs in {self._place!r}: {why}; start it with `mailonce serve`, or say "
                "with --data-dir, --config or --url where yours is"
            )

    async def get(self, *path: str, **query: Any) -> Any:
        """Read; a query value of None is left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return await self._request("GET", path, params=given)

    async def find(self, *path: str, **query: Any) -> Any:
        """Read something that may not be there; then it is None."""
        try:
            return await self.get(*path, **query)
        except MissingError:
            return None

    async def post(
        self, *path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        return await self._request("POST", path, json=body, headers=headers)

    async def post_bytes(self, *path: str, content: bytes, query: dict[str, str]) -> Any:
        """Post a mail as it is."""
        headers = {"Content-Type": "message/rfc822"}
        return await self._request("POST", path, content=content, params=query, headers=headers)

    async def download(self, *path: str) -> bytes:
        """Read a file."""
        return (await self._ask("GET", path)).content

    async def put(self, *path: str, body: Any = None) -> Any:
        return await self._request("PUT", path, json=body)

    async def patch(self, *path: str, body: Any = None) -> Any:
        return await self._request("PATCH", path, json=body)

    async def delete(self, *path: str, **query: Any) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        return await self._request("DELETE", path, params=given)

    async def some(self, *path: str, limit: int, **query: Any) -> Any:
        """Read as many rows as are asked for, over several pages where a page holds fewer."""
        page = await self.get(*path, limit=min(limit, PAGE_ROWS_MAX), **query)
        query.pop("cursor", None)
        while page["next"] is not None and len(page["data"]) < limit:
            rest = min(limit - len(page["data"]), PAGE_ROWS_MAX)
            more = await self.get(*path, limit=rest, cursor=page["next"], **query)
            page = {**more, "data": [*page["data"], *more["data"]]}
        return page

    async def all(self, *path: str, **query: Any) -> list[Any]:
        """Read a list to its end, page by page."""
        rows: list[Any] = []
        cursor = None
        while True:
            page = await self.get(*path, limit=PAGE_ROWS_MAX, cursor=cursor, **query)
            rows += page["data"]
            cursor = page["next"]
            if cursor is None:
                return rows

    async def _request(self, method: str, path: tuple[str, ...], **request: Any) -> Any:
        answer = await self._ask(method, path, **request)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise UnavailableError(
                f"what answers at {self._place} is no mailonce server; correct --url"
            ) from error

    async def whole_id(self, text: str) -> str:
        """Complete the beginning of an id; anything else stays as it is.

        Raises: MissingError where no id begins so, RefusedError where several do.
        """
        if not is_short(text):
            return text
        matches = (await self.get("ids", text))["data"]
        if len(matches) == 1:
            return str(matches[0])
        if not matches:
            raise MissingError(f"no id begins with {text!r}")
        raise RefusedError(f"several ids begin with {text!r}; give more digits: {matches[0]}, …")

    async def _ask(self, method: str, path: tuple[str, ...], **request: Any) -> httpx.Response:
        if path[0] != "ids":
            path = tuple([await self.whole_id(part) for part in path])
        where = "/v1/" + "/".join(quote(part, safe="") for part in path)
        try:
            answer = await self._http.request(method, where, **request)
        except httpx.HTTPError as error:
            away = UnavailableError(
                f"no mailonce server answers at {self._place} ({type(error).__name__}); "
                "start it with `mailonce serve`, or correct --url"
            )
            raise tls_fault(self._place, error) or away from error
        if answer.is_success:
            self.is_replay = answer.headers.get("idempotent-replayed") == "true"
            return answer
        raise _error_of(answer)


@asynccontextmanager
async def open_client(target: ServerAddress) -> AsyncIterator[ApiSession]:
    """Reach the server that `target` names, or be it for as long as this takes.

    Raises: MailonceError where the server does not answer or cannot be built.
    """
    headers = {"Mailonce-User": _user()}
    if target.workspace is not None:
        headers["Mailonce-Workspace"] = target.workspace
    timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    if target.url is not None:
        if target.key is not None:
            headers["Authorization"] = f"Bearer {target.key}"
        url = target.url if "://" in target.url else f"http://{target.url}"
        transport = httpx.AsyncHTTPTransport(verify=verification_of(url, target.config))
        async with _http(url, headers, timeout, transport) as http:
            yield ApiSession(http, str(http.base_url))
        return
    if any(argument.partition("=")[0] == "--key" for argument in sys.argv):
        raise ConfigError(
            "--key is an API key, for the server at --url; a server on this machine needs none "
            "(the key of a send is --idempotency-key)"
        )
    settings = target.settings()
    server: Path | Service | None = find_socket(settings.data_dir)
    is_new = False
    if server is None:
        if target.needs_server:
            raise RefusedError(
                f"no server with an HTTP door runs in {str(settings.data_dir)!r}, so nothing was "
                "changed; a worker or an SMTP door reads its settings again at SIGHUP (`kill -HUP "
                "PID`), or say with --data-dir, --config or --url where your server runs"
            )
        is_new = not await has_database(settings, creates=target.creates)
        if is_new and sys.stdin.isatty() and sys.stdout.isatty():
            # Whoever stands in the wrong folder would look for it in vain beside their server.
            typer.confirm(f"There is no database {place_of(settings)}; make a new one?", abort=True)
        server, is_new = await _build_when_free(settings, is_new=is_new)
    if isinstance(server, Path):
        with socket_name(server) as name:
            # A socket has no TLS, and reading the certificates takes longer than asking.
            transport = httpx.AsyncHTTPTransport(uds=name, verify=False)
            async with _http("http://mailonce", headers, timeout, transport) as http:
                yield ApiSession(http, str(server))
        return
    async with (
        _in_process(server, is_new=is_new) as local,
        _http("http://mailonce", headers, timeout, local.transport) as http,
    ):
        if is_new:
            # Whoever meant a server that runs elsewhere would look there in vain.
            sys.stderr.write(
                f"mailonce: made a new database {place_of(settings)}; no server uses it yet: start "
                "one here, or say with --data-dir, --config or --url where yours is\n"
            )
        yield ApiSession(http, str(settings.data_dir), has_server=local.has_workers)


def verification_of(url: str, config: Path | None) -> ssl.SSLContext | Literal[False]:
    """Say how to verify the server at `url`: by the authorities that the server itself trusts.

    Raises: ConfigError where `net.ca_file` cannot be used.
    """
    if not url.lower().startswith("https:"):
        # There is no TLS, and reading the certificates takes longer than asking.
        return False
    return client_context(read_net_settings(config).ca_file)


@dataclass(frozen=True, slots=True)
class _OwnService:
    """The service in this process, and whether workers of others use its database."""

    transport: httpx.AsyncBaseTransport
    has_workers: bool


async def _build_when_free(settings: Settings, *, is_new: bool) -> "tuple[Path | Service, bool]":
    """Build the service, once no other command has the database; or find the server that began.

    Says as well whether the database is still new: the other command may have made it.
    Raises: TakenError where it is not free in time.
    """
    # Only a command that finds no server pays for importing one.
    from mailonce.log_lines import start_logging  # noqa: PLC0415
    from mailonce.wiring import build_service  # noqa: PLC0415

    start_logging(json=settings.log_format == "json", level="warning")
    ends_s = time.monotonic() + TAKEN_WAIT_S
    while True:
        try:
            return await build_service(settings), is_new
        except TakenError:
            if time.monotonic() > ends_s:
                raise
        await asyncio.sleep(TAKEN_LOOK_S)
        path = find_socket(settings.data_dir)
        if path is not None:
            return path, False
        is_new = is_new and not await has_database(settings, creates=True)


@asynccontextmanager
async def _in_process(service: "Service", *, is_new: bool) -> AsyncIterator[_OwnService]:
    from mailonce.core.signatures.sealing import UNREADABLE  # noqa: PLC0415
    from mailonce.edge.http.app import build_app  # noqa: PLC0415
    from mailonce.manage.master_key import LOST_KEY_ADVICE  # noqa: PLC0415

    try:
        await service.configuration.reload()
        if service.snapshot.opens_nothing:
            raise ConfigError(f"{UNREADABLE}; {LOST_KEY_ADVICE}")
        if is_new:
            # Without a domain, no inbox could be made in it.
            await service.manage.domains.apply_settings()
        crew = await service.database.lanes.crew()
        has_workers = any(one.is_present and not one.is_gone for one in crew)
        await service.start(maintains=False)
        app = build_app(service)

        async def local(scope: Any, receive: Any, send: Any) -> None:
            # Whoever may open the database may do anything: no key is asked for.
            scope["mailonce.local"] = True
            await app(scope, receive, send)

        yield _OwnService(httpx.ASGITransport(local), has_workers)
    finally:
        await service.stop()


def _user() -> str:
    """Give the name of whoever runs this, for the audit log of the server on this machine."""
    try:
        return quote(os.environ.get("SUDO_USER") or getuser())
    except (KeyError, OSError):
        return str(os.getuid())


def _http(
    url: str,
    headers: dict[str, str],
    timeout: httpx.Timeout,
    transport: httpx.AsyncBaseTransport,
) -> httpx.AsyncClient:
    check_path(url)
    try:
        # Proxies of the environment are for the outside world; a server of ours is named.
        return httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout, transport=transport, trust_env=False
        )
    except (httpx.InvalidURL, ValueError) as error:
        raise ConfigError(f"`--url` is wrong: {error}; write http://HOST:PORT") from error


def _error_of(answer: httpx.Response) -> MailonceError:
    """Turn a problem back into the error that it was."""
    content_type = answer.headers.get("content-type", "")
    return error_of(answer.status_code, content_type, answer.content, url=str(answer.request.url))
