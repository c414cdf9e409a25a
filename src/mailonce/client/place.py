"""Where the server is: its address, its key, and how a request to it is written."""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urlsplit

from mailonce.client.steps import ApiRequest
from mailonce.errors import ConfigError
from mailonce.tls import client_context

URL_DEFAULT = "http://127.0.0.1:8100"
# Where a person looks at it, and what a client adds by itself.
_PATHS_OF_SERVER = ("/v1", "/docs", "/openapi.json")
# What a header can hold: a line end in a key would begin another header.
_HEADER = re.compile(r"[\t -~\x80-\xff]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """A server and how it is reached."""

    url: str
    host: str
    port: int
    # Before every path, where the server stands behind a proxy.
    prefix: str
    tls: ssl.SSLContext | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    def write(self, request: ApiRequest) -> bytes:
        """Write a request as it goes over the line.

        Raises: ConfigError where a value can stand in no header.
        """
        headers = {
            "Host": self._host_header(),
            **self.headers,
            **request.headers,
            "Content-Length": str(len(request.body)),
        }
        for name, value in headers.items():
            if _HEADER.fullmatch(value) is None:
                raise ConfigError(f"the header {name} holds what no header can; correct its value")
        lines = [f"{request.method} {self.prefix}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body

    def _host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def check_path(url: str) -> None:
    """See that a URL names the server, and no page of it.

    Raises: ConfigError where it does.
    """
    base = url.rstrip("/")
    for path in _PATHS_OF_SERVER:
        if base.endswith(path):
            raise ConfigError(
                f"the URL {url!r} names {path} of the server; write {base.removesuffix(path)!r}"
            )


def place_of(
    url: str | None,
    key: str | None,
    *,
    workspace: str | None = None,
    tls: ssl.SSLContext | None = None,
    environment: Mapping[str, str] | None = None,
) -> ServerPlace:
    """Read where the server is; what is not given is taken from MAILONCE_URL and MAILONCE_KEY.

    Raises: ConfigError where the URL is none.
    """
    known = os.environ if environment is None else environment
    url = url or known.get("MAILONCE_URL") or URL_DEFAULT
    key = key or known.get("MAILONCE_KEY") or known.get("MAILONCE_ADMIN_KEY")
    for name, value, form in (("URL", url, "http://HOST:PORT"), ("key", key, "mok_…")):
        if not isinstance(value, str | None):
            raise ConfigError(f"the {name} must be a text such as {form}, it is {value!r}")
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise ConfigError(f"the URL {url!r} is wrong: {error}; write http://HOST:PORT") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
        raise ConfigError(f"the URL {url!r} is wrong; write http://HOST:PORT")
    check_path(url)
    headers = {"Accept": "*/*", "User-Agent": "mailonce-python"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if workspace is not None:
        headers["Mailonce-Workspace"] = workspace
    is_https = parts.scheme == "https"
    return ServerPlace(
        url=url,
        host=parts.hostname,
        port=port,
        prefix=parts.path.rstrip("/"),
        tls=(tls or client_context()) if is_https else None,
        headers=MappingProxyType(headers),
    )
