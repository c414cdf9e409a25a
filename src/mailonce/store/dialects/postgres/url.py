"""The URL of a PostgreSQL server: libpq's options, checked before anything is connected.

asyncpg reads most options as libpq does. One that it does not know it would send to the server as a
setting of the session, and the answer would blame the server.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from mailonce.errors import ConfigError

CONNECT_TIMEOUT_S = 5
# As libpq: a shorter time is never what was meant.
CONNECT_TIMEOUT_S_MIN = 2
# Read by asyncpg, or by the server.
_KNOWN = frozenset(
    {"host", "port", "dbname", "database", "user", "password", "passfile", "service"}
    | {"sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "sslcrl", "sslpassword"}
    | {"ssl_min_protocol_version", "ssl_max_protocol_version", "target_session_attrs"}
    | {"krbsrvname", "gsslib", "application_name", "options"}
)
# Of no importance here: every connection has its keepalive, and the names are ours.
_LEFT_OUT = frozenset(
    {"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"}
    | {"tcp_user_timeout", "fallback_application_name", "client_encoding"}
    | {"sslcompression", "sslsni"}
)
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_FILES = frozenset({"sslrootcert", "sslcert", "sslkey", "sslcrl"})
_PREFERENCES = frozenset({"channel_binding", "gssencmode"})
_ALL = _KNOWN | _LEFT_OUT | _PREFERENCES | {"connect_timeout", "ssl"}
_NAME = re.compile(r"[A-Za-z_]+")
# A name, an address, one in brackets or the folder of a socket; and a port.
_HOST = re.compile(r"([\w.-]*|\[[\w:.%]+\]|%2[Ff][\w.%-]*)(:[0-9]*)?")
SIGNS = (
    "`database` has a sign in its user or password that a URL cannot hold; write @ as %40, "
    "/ as %2F, ? as %3F, # as %23, : as %3A, [ as %5B, ] as %5D and % as %25"
)


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """What asyncpg is given."""

    dsn: str
    connect_timeout_s: float


def read_url(url: str) -> ServerUrl:
    """Read the URL that a hosting service or libpq's documents give.

    Raises: ConfigError, one sentence without the password.
    """
    rest = url.split("://", 1)[1]
    try:
        parts = urlsplit(f"postgresql://{rest}")
    except ValueError:
        # Its words may hold the password, as those of an address in brackets do.
        raise ConfigError(SIGNS) from None
    options = parse_qsl(parts.query, keep_blank_values=True)
    _check_signs(parts, [name for name, _ in options])
    timeout_s: float = CONNECT_TIMEOUT_S
    kept: dict[str, str] = {}
    for name, value in options:
        if name == "connect_timeout":
            timeout_s = _timeout_s(value)
        elif name in _PREFERENCES and value == "require":
            raise ConfigError(
                f"`database` has {name}=require, which mailonce cannot do; leave it out, and "
                "demand TLS with sslmode=verify-full"
            )
        elif name == "ssl":
            raise ConfigError("`database` has the option `ssl`; write sslmode=require")
        elif name in _KNOWN and value:
            _check_option(name, value)
            kept[name] = value
        elif name not in _ALL:
            shown = f" {name!r}" if _NAME.fullmatch(name) else ""
            raise ConfigError(
                f"`database` has an option{shown} that libpq does not know; correct or remove it"
            )
    return ServerUrl(parts._replace(query=urlencode(kept)).geturl(), timeout_s)


def _check_signs(parts: SplitResult, options: list[str]) -> None:
    """See that no sign in a password cuts the URL elsewhere: a part of it would be shown."""
    is_cut = "@" not in parts.netloc and "@" in parts.query and not _ALL.issuperset(options)
    if parts.netloc.count("@") > 1 or "@" in parts.path or parts.fragment or is_cut:
        raise ConfigError(SIGNS)
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not all(map(_HOST.fullmatch, hosts)):
        raise ConfigError(
            "`database` has something else than a host and a port after an @, or no @; write "
            "postgresql://user:password@host:5432/name, and signs in a password as %40 for @"
        )


def _check_option(name: str, value: str) -> None:
    if name == "sslmode" and value not in _SSL_MODES:
        raise ConfigError(f"`database` has sslmode={value!r}; use one of {', '.join(_SSL_MODES)}")
    if name in _FILES and not Path(value).is_file():
        raise ConfigError(
            f"`database` has {name}={value!r}, and there is no such file; correct the path"
        )


def _timeout_s(value: str) -> float:
    try:
        seconds = int(value)
    except ValueError as error:
        raise ConfigError(
            f"`database` has connect_timeout={value!r}; give whole seconds"
        ) from error
    return max(seconds, CONNECT_TIMEOUT_S_MIN) if seconds > 0 else CONNECT_TIMEOUT_S
