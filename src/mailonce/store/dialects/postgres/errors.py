"""PostgreSQL's errors, by their code: messages and details may quote values."""

import asyncio
import os
import socket
import ssl
from urllib.parse import unquote, urlsplit

import asyncpg
from sqlalchemy import exc

from mailonce.errors import ConfigError, MailonceError
from mailonce.store.dialects.contract import (
    DatabaseUnavailableError,
    LockedError,
    OutcomeUnknownError,
    RowError,
)

# The server did not answer, or said that it goes away.
UNREACHABLE = (OSError, asyncio.TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# A standby, or a primary that was made read-only: its connections lead to the wrong place.
READ_ONLY = "25006"
# A lock that was waited for too long, or two who wait for each other: nothing was written.
_LOCKED = frozenset({"55P03", "40P01", "40001"})

# What a refusal means while we run, and what to do.
_REFUSALS = {
    "53100": "the disk of the database is full (SQLSTATE 53100); make room there",
    "53300": "the database has no connection left (SQLSTATE 53300); raise max_connections",
}

# Codes of OpenSSL: a host's name and an address; not yet valid and expired.
_WRONG_NAME = frozenset({62, 64})
_WRONG_TIME = frozenset({9, 10})

_REMEDIES = {
    "28000": "refused the user {user!r}; correct the user in `database`, or pg_hba.conf",
    "28P01": "refused the password of {user!r}; correct it in `database`",
    "3D000": "has no database {name!r}; create it with `createdb {name}`, or correct `database`",
    "42501": "does not let {user!r} make tables in {name!r}; make {user!r} the owner of {name!r}",
    "53300": "has no connection left; raise max_connections, or start fewer processes",
    "57P03": "is starting or stopping; start again in a moment",
    "55P03": "is busy with another process that brings its tables up to date; start again later",
    READ_ONLY: "is read-only; let `database` name the primary, not a standby",
}


def translated(error: asyncpg.PostgresError) -> MailonceError:
    """Say what follows an error of a connection of ours."""
    state = error.sqlstate or ""
    if state.startswith("22"):
        return RowError(f"PostgreSQL cannot hold a value (SQLSTATE {state})")
    return _by_state(state)


def translated_core(error: exc.DBAPIError) -> MailonceError:
    """Say the same of an error of SQLAlchemy; asyncpg's own errors have no SQLSTATE."""
    cause = error.orig.__cause__ if error.orig is not None else None
    if isinstance(cause, UNREACHABLE) and not isinstance(cause, ValueError):
        return OutcomeUnknownError("the connection to the database broke; try again")
    return _by_state(state_of(error))


def state_of(error: exc.DBAPIError) -> str:
    """Give the SQLSTATE of an error of SQLAlchemy, empty where it has none."""
    return getattr(error.orig, "sqlstate", None) or ""


def _by_state(state: str) -> MailonceError:
    if state in _LOCKED:
        return LockedError("a row is held by another process; try again in a moment")
    if state == READ_ONLY:
        return OutcomeUnknownError("the database is read-only; point `database` at the primary")
    if state.startswith(("08", "57P")):
        return OutcomeUnknownError(
            f"the connection to the database broke (SQLSTATE {state}); try again"
        )
    return DatabaseUnavailableError(
        _REFUSALS.get(state)
        or f"the database refused (SQLSTATE {state}); see its log, then try again"
    )


def unreachable(error: BaseException) -> DatabaseUnavailableError:
    """Say why a server that we run with cannot be reached."""
    return DatabaseUnavailableError(f"the database cannot be reached ({_cause(error)}); try again")


def refused_start(url: str, error: BaseException) -> MailonceError:
    """Say in one sentence which server did not let us start, why, and what to do."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2] or "localhost"
    user = unquote(parts.username or "")
    name = unquote(parts.path.lstrip("/")) or user
    state = getattr(error, "sqlstate", None) or getattr(
        getattr(error, "orig", None), "sqlstate", None
    )
    if state in _REMEDIES:
        remedy = _REMEDIES[state].format(user=user, name=name)
        permanent = state in {"28000", "28P01", "3D000", "42501"}
        return (ConfigError if permanent else DatabaseUnavailableError)(
            f"PostgreSQL at {place} {remedy}"
        )
    if state is not None:
        return DatabaseUnavailableError(
            f"PostgreSQL at {place} refused (SQLSTATE {state}); see its log"
        )
    if isinstance(error, ssl.SSLError) or (
        isinstance(error, ConnectionError) and "SSL" in str(error)
    ):
        return _refused_tls(place, error)
    why = _cause(error)
    if isinstance(error, asyncpg.ClientConfigurationError):
        return ConfigError(f"`database` cannot be used ({why}); correct it, see docs/postgresql.md")
    return DatabaseUnavailableError(
        f"PostgreSQL at {place} cannot be reached ({why}); start it, or correct `database`"
    )


def _refused_tls(place: str, error: OSError) -> MailonceError:
    """Say which check of TLS failed; a certificate of another day is no fault of the settings."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=code) if code in _WRONG_NAME:
            what = (
                "has a certificate that is not for that name; write a name that it has into "
                "`database`, or sslmode=verify-ca, which checks no name"
            )
        case ssl.SSLCertVerificationError(verify_code=code) if code in _WRONG_TIME:
            return DatabaseUnavailableError(
                f"PostgreSQL at {place} has a certificate that is not valid today; renew it, or "
                "correct this machine's clock"
            )
        case ssl.SSLCertVerificationError():
            what = (
                "has a certificate whose authority is not in sslrootcert; let sslrootcert in "
                "`database` name the root certificate that signed it"
            )
        case ssl.SSLError():
            what = (
                f"refused TLS ({error.reason}); compare sslmode, sslcert and sslkey in `database` "
                "with its own settings"
            )
        case _:
            what = "has no TLS, which sslmode demands; switch it on there, or correct sslmode"
    return ConfigError(f"PostgreSQL at {place} {what}")


def _cause(error: BaseException) -> str:
    match error:
        case socket.gaierror():
            return "its name is not known"
        case asyncio.TimeoutError():
            return "no answer in time"
        case asyncpg.ClientConfigurationError():
            # It names an option of the URL, and no value of it.
            return str(error).split("\n")[0]
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case OSError():
            # Several addresses, none of which answered.
            return "connection refused"
        case asyncpg.InterfaceError() | asyncpg.InternalClientError():
            return "the connection broke"
        case _:
            return type(error).__name__
