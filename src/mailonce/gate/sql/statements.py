"""The gate's few statements, one text per dialect, for every driver of that dialect.

Parameters are written `:name`; a store turns them into what its driver reads. Times are the
database's own: two servers with different clocks still agree on who holds a lease.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mailonce.errors import ConfigError, MailonceError, UnavailableError
from mailonce.gate.rules.decision import REFUSAL, Claim, ClaimRecord
from mailonce.gate.rules.http import Headers, Response
from mailonce.gate.sql.commit_guard import (
    AUTOCOMMIT,
    CONSTRAINT,
    OTHER_LOOP,
    STILL_USED,
    SWALLOWED,
    misuse,
)

TABLE = "webhook_idempotency"
MAKE_TABLES = (
    "make the gate's tables with `mailonce.gate.schema.create(connection)`, or change a table of "
    "another making with `schema.adoption` (docs/gate.md, Tables)"
)
Row = Sequence[Any]
_encode = json.JSONEncoder().encode

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}(\.[A-Za-z_][A-Za-z0-9_]{0,50})?")
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """How a claim is held: by its transaction, by a lease, or by nobody where it is queued work."""

    window_s: float
    # Only the gate may commit the transaction, and only together with the recorded response.
    atomic: bool
    lease_s: float | None = None


@dataclass(slots=True)
class Statement:
    """One statement of the gate, with its parameters by name."""

    text: str
    params: Mapping[str, Any]
    # The row that comes back if it changes one; None: only the database knows.
    given: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the two databases do not write alike."""

    name: str
    now: str
    # The time that many seconds from now; {} is the parameter.
    after: str
    greatest: str
    no: str
    # A number that grows: tokens stay new even where pruning took the row that had the last one.
    ticks: str
    text: str
    number: str
    bytes: str
    skip_locked: str
    # The texts of a JSON array, as rows; {} is the parameter.
    texts: str
    # Looking first keeps repeats from queueing behind the only writer.
    looks_first: bool
    # Says at once whether no other copy of the key runs.
    alone: str


POSTGRESQL = Dialect(
    name="postgresql",
    now="clock_timestamp()",
    after="(clock_timestamp() + make_interval(secs => CAST({} AS double precision)))",
    greatest="greatest",
    no="false",
    ticks="CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    text="CAST({} AS text)",
    number="CAST(CAST({} AS text) AS bigint)",
    bytes="CAST({} AS bytea)",
    skip_locked=" FOR UPDATE SKIP LOCKED",
    texts="SELECT json_array_elements_text(CAST(CAST({} AS text) AS json))",
    looks_first=False,
    alone="pg_try_advisory_xact_lock(hashtextextended({scope} || chr(31) || {key}, 7))",
)
SQLITE = Dialect(
    name="sqlite",
    now="strftime('%Y-%m-%d %H:%M:%f', 'now')",
    after="strftime('%Y-%m-%d %H:%M:%f', 'now', {} || ' seconds')",
    greatest="max",
    no="0",
    ticks="CAST((julianday('now') - 2440587.5) * 86400000 AS integer)",
    text="{}",
    number="CAST({} AS integer)",
    bytes="{}",
    skip_locked="",
    texts="SELECT value FROM json_each({})",
    looks_first=True,
    alone="true",
)
DIALECTS = {dialect.name: dialect for dialect in (POSTGRESQL, SQLITE)}

_READ = """
SELECT request_hash, request_fields, response_status, response_headers, response_body,
    expires_at > {now}, coalesce(lease_until > {now}, {no})
FROM {table} WHERE scope = {scope} AND idempotency_key = {key}"""

# Whoever lost its lease changes nothing: no row comes back.
_FENCED = """
WHERE scope = {scope} AND idempotency_key = {key} AND fencing_token = {token}
    AND status = 'processing' RETURNING 1"""
_COMPLETE = """
UPDATE {table} SET status = 'completed', response_status = {status}, response_headers = {headers},
    response_body = {body}, completed_at = {now}, lease_until = NULL, unfinished = NULL """
_RENEW = "UPDATE {table} SET lease_until = {lease} "
_POINT = "UPDATE {table} SET recovery_points = {points} "
_PRUNE = """
DELETE FROM {table} WHERE (scope, idempotency_key) IN (
    SELECT scope, idempotency_key FROM {table} WHERE expires_at <= {now}
    AND (lease_until IS NULL OR lease_until <= {now}) LIMIT {rows}{skip_locked}) RETURNING 1"""

# The common case, and the cheapest statement for it: nobody has the key. PostgreSQL's try-lock says
# at once that another copy runs, where the INSERT alone would wait for its end. No row: look.
_CLAIM = """
INSERT INTO {table} (scope, idempotency_key, request_hash, request_fields, status,
    created_at, expires_at, lease_until, fencing_token, unfinished)
SELECT {scope}, {key}, {hash}, {fields}, 'processing',
    {now}, {window}, {lease}, {ticks}, {unfinished} WHERE {alone}
ON CONFLICT (scope, idempotency_key) DO NOTHING RETURNING fencing_token"""

# Held by nobody, and either expired, unfinished, or a refusal that may be tried again: then whoever
# comes first may have it. Only the same content may take up what a crashed copy began.
_FREE = (
    "((lease_until IS NULL OR lease_until <= {now}) AND (expires_at <= {now} "
    "OR (request_hash = {hash} AND (status = 'processing' OR response_status >= {refused}))))"
)
_TAKE_OVER = """
UPDATE {table} SET
    recovery_points = CASE WHEN expires_at <= {now} THEN '{{}}' ELSE recovery_points END,
    created_at = CASE WHEN expires_at <= {now} THEN {now} ELSE created_at END,
    expires_at = {window},
    request_hash = {hash},
    request_fields = {fields},
    status = 'processing',
    response_status = NULL,
    response_headers = NULL,
    response_body = NULL,
    completed_at = NULL,
    lease_until = {lease},
    fencing_token = {greatest}(fencing_token + 1, {ticks}),
    unfinished = {unfinished}
WHERE scope = {scope} AND idempotency_key = {key} AND {free} AND {alone}
RETURNING fencing_token, recovery_points"""

# Above every status: nothing recorded is tried again.
_NEVER = 1000
# What RETURNING 1 gives.
_ONE = (1,)


class Sql:
    """The statements for one dialect and table."""

    def __init__(self, dialect: str, table: str = TABLE) -> None:
        if dialect not in DIALECTS:
            raise ConfigError(f"no dialect {dialect!r}; use one of {', '.join(DIALECTS)}")
        self.dialect = DIALECTS[dialect]
        self.table = checked_name(table)
        parts = _parts(self.dialect, table)
        fenced = _FENCED.format(**parts)
        # A claim that is part of its work's transaction needs no fence. Its token is only a name.
        named = {"lease": "NULL", "unfinished": "1", "ticks": parts["token"]}
        self._open = _claim_texts(parts | named)
        # What claims a key within its work's transaction, and what records its response.
        self.opening = self._open[0]
        self._leased = _claim_texts(parts | {"unfinished": "NULL"})
        self._read = _READ.format(**parts)
        self.completion = _COMPLETE.format(**parts) + fenced
        self._renew = _RENEW.format(**parts) + fenced
        self._point = _POINT.format(**parts) + fenced
        self._prune = _PRUNE.format(**parts)

    def claim(self, claim: Claim, hold: Hold) -> Statement:
        """Insert the key if nobody has it; its token comes back, or no row."""
        params = _claiming(claim, hold)
        if hold.atomic:
            return Statement(self.opening, params, given=(params["token"],))
        return Statement(self._leased[0], params)

    def take_over(self, claim: Claim, hold: Hold) -> Statement:
        """Take a key whose record is free: its token and recovery points come back, or no row."""
        _, text = self._open if hold.atomic else self._leased
        refused = REFUSAL if claim.redelivery else _NEVER
        return Statement(text, {**_claiming(claim, hold), "refused": str(refused)})

    def read(self, claim: Claim) -> Statement:
        """Read the record of a key. See `record_of`."""
        return Statement(self._read, {"scope": claim.scope, "key": claim.key})

    def complete(self, claim: Claim, token: int, response: Response) -> Statement:
        """Record the response, unless the token is no longer ours: then no row comes back."""
        params = _fenced(claim, token)
        params |= {
            "status": str(response.status),
            "headers": _headers_text(response.headers),
            "body": response.body,
        }
        return Statement(self.completion, params, given=_ONE)

    def renew(self, claim: Claim, token: int, *, lease_s: float) -> Statement:
        """Renew the lease for some seconds from now; 0 releases it. No row: it was lost."""
        params = _fenced(claim, token) | {"lease_s": float(lease_s)}
        return Statement(self._renew, params, given=_ONE)

    def point(self, claim: Claim, token: int, points: str) -> Statement:
        """Save the recovery points so far, as JSON. No row: the lease was lost."""
        params = _fenced(claim, token) | {"points": points}
        return Statement(self._point, params, given=_ONE)

    def prune(self, *, rows_max: int) -> Statement:
        """Forget records whose window has ended; a row comes back for each."""
        return Statement(self._prune, {"rows": str(rows_max)})


def record_of(rows: Sequence[Row]) -> ClaimRecord | None:
    if not rows:
        return None
    fingerprint, fields, status, headers, body, live, held = rows[0]
    response = None
    if status is not None:
        pairs = tuple((name, value) for name, value in json.loads(headers))
        response = Response(int(status), bytes(body), pairs)
    return ClaimRecord(
        fingerprint=fingerprint,
        fields=json.loads(fields),
        response=response,
        live=bool(live),
        held=bool(held),
    )


# Errors about a missing table or column: SQLite's words, PostgreSQL's codes.
_ABSENT_WORDS = ("no such table", "no such column", "has no column named", "does not exist")
_ABSENT_CODES = ("42703", "42P01", "42P10")
_ABSENT_TABLE = re.compile(r"no such table: (\S+)|relation \"([^\"]+)\" does not exist")
# What asyncpg and SQLAlchemy say where two tasks use one connection or session.
_IN_USE_WORDS = ("another operation is in progress", "IllegalStateChangeError")
_ABORTED = "25P02"
# What asyncio says where a future, a lock or a socket is of another loop.
_LOOP_WORDS = ("attached to a different loop", "different event loop", "Event loop is closed")


def unavailable(error: BaseException, *, make_tables: str = MAKE_TABLES) -> MailonceError:
    """Say what a driver's error means to the gate, and what to do about it where that is known."""
    cause = getattr(error, "orig", None) or error
    text = f"{type(cause).__name__}: {cause}".splitlines()[0]
    if CONSTRAINT in text:
        # Nothing but the gate's own statement is committed here: it was committed by itself.
        return misuse(AUTOCOMMIT)
    if any(word in text for word in _LOOP_WORDS):
        return misuse(OTHER_LOOP)
    if any(word in text for word in _IN_USE_WORDS):
        return misuse(STILL_USED)
    code = getattr(cause, "sqlstate", None) or getattr(cause.__cause__, "sqlstate", None)
    if code in _ABSENT_CODES or any(word in text for word in _ABSENT_WORDS):
        return UnavailableError(f"the gate's store: {text}; {make_tables}")
    if code == _ABORTED:
        return UnavailableError(f"the gate's store: {SWALLOWED}")
    return UnavailableError(f"the gate's store: {text}")


def is_of_other_loop(error: BaseException) -> bool:
    """Say whether asyncio refused what belongs to another event loop."""
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _LOOP_WORDS)


def absent_table(error: BaseException) -> str | None:
    """Name the table that a driver's error misses; None where the error is of another kind."""
    cause = getattr(error, "orig", None) or error
    match = _ABSENT_TABLE.search(str(cause).partition("\n")[0])
    return None if match is None else match[1] or match[2]


def checked_name(table: str) -> str:
    """Let only plain table names into a statement, with their schema or without.

    Raises: ConfigError.
    """
    if not _NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is no plain table name")
    return table


@lru_cache(maxsize=256)
def pyformat(text: str) -> str:
    """Write the parameters as `%(name)s`, for psycopg and Django."""
    return PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


@lru_cache(maxsize=256)
def formatted(text: str) -> tuple[str, tuple[str, ...]]:
    """Write the parameters as `%s`, and say which name stands at which place."""
    text = text.replace("%", "%%")
    return PARAMETER.sub("%s", text), tuple(match[1] for match in PARAMETER.finditer(text))


@lru_cache(maxsize=256)
def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Write the parameters as `$1`, and say which name stands at which place."""
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return PARAMETER.sub(place, text), tuple(names)


def _claiming(claim: Claim, hold: Hold) -> dict[str, Any]:
    params: dict[str, Any] = {
        "scope": claim.scope,
        "key": claim.key,
        "hash": claim.fingerprint,
        "fields": _encode(claim.fields),
        "window_s": hold.window_s,
    }
    if hold.atomic:
        params["token"] = str(time.time_ns() // 1_000_000)
    else:
        params["lease_s"] = hold.lease_s
    return params


@lru_cache(maxsize=256)
def _headers_text(headers: Headers) -> str:
    """Write the headers of a response; those of one handler are mostly the same."""
    return _encode(headers)


def _fenced(claim: Claim, token: int) -> dict[str, Any]:
    return {"scope": claim.scope, "key": claim.key, "token": str(token)}


def _parts(dialect: Dialect, table: str) -> dict[str, str]:
    def written(how: str, *names: str) -> dict[str, str]:
        return {name: how.format(f":{name}") for name in names}

    parts = {
        "table": table,
        "now": dialect.now,
        "no": dialect.no,
        "greatest": dialect.greatest,
        "ticks": dialect.ticks,
        "skip_locked": dialect.skip_locked,
        "window": dialect.after.format(":window_s"),
        "lease": dialect.after.format(":lease_s"),
        **written(dialect.text, "scope", "key", "hash", "fields", "headers", "points"),
        **written(dialect.number, "token", "status", "rows", "refused"),
        **written(dialect.bytes, "body"),
    }
    parts["alone"] = dialect.alone.format(**parts)
    return parts


def _claim_texts(parts: Mapping[str, str]) -> tuple[str, str]:
    free = _FREE.format(**parts)
    return _CLAIM.format(**parts), _TAKE_OVER.format(**parts, free=free)
