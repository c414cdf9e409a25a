"""The gate's few statements, one text per dialect, for every driver of that dialect.

Parameters are written `:name`; a store turns them into what its driver reads. Times are the
database's own: two servers with different clocks still agree on who holds a lease.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mailonce.errors import ConfigError
from mailonce.gate.decision import Claim, First, Record
from mailonce.gate.http import Response

TABLE = "webhook_idempotency"
Row = tuple[Any, ...]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,50}(\.[A-Za-z_][A-Za-z0-9_]{0,50})?")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of the gate, with its parameters by name."""

    text: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the two databases do not write alike."""

    name: str
    now: str
    # The time so many seconds from now; {} is the parameter.
    after: str
    greatest: str
    no: str
    # A number that grows: tokens stay new even where pruning took the row that had the last one.
    ticks: str
    text: str
    number: str
    bytes: str
    skip_locked: str
    # Looking first keeps repeats from queueing behind the only writer.
    looks_first: bool


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
    looks_first=False,
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
    looks_first=True,
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
    response_body = {body}, completed_at = {now}, lease_until = NULL """
_RENEW = "UPDATE {table} SET lease_until = {lease} "
_POINT = "UPDATE {table} SET recovery_points = {points} "
_PRUNE = """
DELETE FROM {table} WHERE (scope, idempotency_key) IN (
    SELECT scope, idempotency_key FROM {table} WHERE expires_at <= {now}
    AND (lease_until IS NULL OR lease_until <= {now}) LIMIT {rows}{skip_locked}) RETURNING 1"""

# Held by nobody, and either expired or unfinished: then whoever comes first may have it. Only the
# same content may take up what a crashed copy began.
_FREE = (
    "((mine.lease_until IS NULL OR mine.lease_until <= {now}) AND (mine.expires_at <= {now} "
    "OR (mine.status = 'processing' AND mine.request_hash = {hash})))"
)

_INSERT = """
INSERT INTO {table} AS mine (scope, idempotency_key, request_hash, request_fields, status,
    created_at, expires_at, lease_until, fencing_token, recovery_points)
SELECT {scope}, {key}, {hash}, {fields}, 'processing',
    {now}, {window}, {lease}, {ticks}, '{{}}' {source}
ON CONFLICT (scope, idempotency_key) DO UPDATE SET
    recovery_points = CASE WHEN mine.expires_at <= {now} THEN '{{}}' ELSE mine.recovery_points END,
    created_at = CASE WHEN mine.expires_at <= {now} THEN {now} ELSE mine.created_at END,
    expires_at = excluded.expires_at,
    request_hash = excluded.request_hash,
    request_fields = excluded.request_fields,
    status = 'processing',
    response_status = NULL,
    response_headers = NULL,
    response_body = NULL,
    completed_at = NULL,
    lease_until = excluded.lease_until,
    fencing_token = {greatest}(mine.fencing_token + 1, excluded.fencing_token)
WHERE {free}
RETURNING fencing_token, recovery_points"""

# The try-lock says at once that another copy runs, where the INSERT alone would wait for its end.
# A record that is there is looked at without the lock: repeats do not disturb each other.
_CLAIM_POSTGRESQL = """
WITH known AS MATERIALIZED (
    SELECT *, {free} AS free FROM {table} AS mine
    WHERE scope = {scope} AND idempotency_key = {key}
), door AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended({scope} || chr(31) || {key}, 7)) AS open
    WHERE NOT EXISTS (SELECT 1 FROM known WHERE NOT free)
), claimed AS ({insert})
SELECT coalesce((SELECT open FROM door), true), claimed.fencing_token, claimed.recovery_points,
    known.request_hash, known.request_fields, known.response_status, known.response_headers,
    known.response_body, known.expires_at > {now}, coalesce(known.lease_until > {now}, false)
FROM (SELECT 1) AS one LEFT JOIN claimed ON true LEFT JOIN known ON true"""


class Sql:
    """The statements for one dialect and table."""

    def __init__(self, dialect: str, table: str = TABLE) -> None:
        if dialect not in DIALECTS:
            raise ConfigError(f"no dialect {dialect!r}; use one of {', '.join(DIALECTS)}")
        self.dialect = DIALECTS[dialect]
        self.table = checked_name(table)
        parts = _parts(self.dialect, table)
        fenced = _FENCED.format(**parts)
        self._claim = _claim_text(self.dialect, parts)
        self._read = _READ.format(**parts)
        self._complete = _COMPLETE.format(**parts) + fenced
        self._renew = _RENEW.format(**parts) + fenced
        self._point = _POINT.format(**parts) + fenced
        self._prune = _PRUNE.format(**parts)

    def claim(self, claim: Claim, *, window_s: float, lease_s: float | None) -> Statement:
        """Take the key if it is free; say what stands otherwise. See `claimed_of`."""
        params = {
            "scope": claim.scope,
            "key": claim.key,
            "hash": claim.fingerprint,
            "fields": json.dumps(dict(claim.fields)),
            "window_s": float(window_s),
            "lease_s": None if lease_s is None else float(lease_s),
        }
        return Statement(self._claim, params)

    def read(self, claim: Claim) -> Statement:
        """Read the record of a key. See `record_of`."""
        return Statement(self._read, {"scope": claim.scope, "key": claim.key})

    def complete(self, claim: Claim, token: int, response: Response) -> Statement:
        """Record the response, unless the token is no longer ours: then no row comes back."""
        more = {
            "status": str(response.status),
            "headers": json.dumps(response.headers),
            "body": response.body,
        }
        return Statement(self._complete, _fenced(claim, token) | more)

    def renew(self, claim: Claim, token: int, *, lease_s: float) -> Statement:
        """Hold on for so many seconds from now; 0 lets go. No row: it was taken."""
        return Statement(self._renew, _fenced(claim, token) | {"lease_s": float(lease_s)})

    def point(self, claim: Claim, token: int, points: Mapping[str, Any]) -> Statement:
        """Keep what has been done so far. No row: the lease was taken."""
        return Statement(self._point, _fenced(claim, token) | {"points": json.dumps(dict(points))})

    def prune(self, *, rows_max: int) -> Statement:
        """Forget records whose window has ended; a row comes back for each."""
        return Statement(self._prune, {"rows": str(rows_max)})


def claimed_of(rows: Sequence[Row]) -> tuple[First | None, Record | None, bool]:
    """Read what `claim` gave: the claim if won, else the record that stands, and if nobody runs."""
    if not rows:
        return None, None, True
    is_open, token, points, *record = rows[0]
    first = None if token is None else First(int(token), json.loads(points))
    known = None if record[0] is None else record_of([tuple(record)])
    return first, known, bool(is_open)


def record_of(rows: Sequence[Row]) -> Record | None:
    """Read what `read` gave."""
    if not rows:
        return None
    fingerprint, fields, status, headers, body, live, held = rows[0]
    response = None
    if status is not None:
        pairs = tuple((name, value) for name, value in json.loads(headers))
        response = Response(int(status), bytes(body), pairs)
    return Record(
        fingerprint=fingerprint,
        fields=json.loads(fields),
        response=response,
        live=bool(live),
        held=bool(held),
    )


def checked_name(table: str) -> str:
    """Let only plain table names into a statement, with their schema or without.

    Raises: ConfigError.
    """
    if not _NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is no plain table name")
    return table


@lru_cache(maxsize=256)
def or_fail(text: str) -> str:
    """Write a statement so that PostgreSQL refuses it where it would give no row.

    A COMMIT that was sent along then has nothing to commit.
    """
    return f"WITH given AS ({text}) SELECT 1 / count(*) FROM given"  # noqa: S608


@lru_cache(maxsize=256)
def pyformat(text: str) -> str:
    """Write the parameters as `%(name)s`, for psycopg and Django."""
    return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


@lru_cache(maxsize=256)
def numbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Write the parameters as `$1`, and say which name stands at which place."""
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    return _PARAMETER.sub(place, text), tuple(names)


def _fenced(claim: Claim, token: int) -> dict[str, Any]:
    return {"scope": claim.scope, "key": claim.key, "token": str(token)}


def _parts(dialect: Dialect, table: str) -> dict[str, str]:
    def written(how: str, *names: str) -> dict[str, str]:
        return {name: how.format(f":{name}") for name in names}

    return {
        "table": table,
        "now": dialect.now,
        "no": dialect.no,
        "greatest": dialect.greatest,
        "ticks": dialect.ticks,
        "skip_locked": dialect.skip_locked,
        "window": dialect.after.format(":window_s"),
        "lease": dialect.after.format(":lease_s"),
        **written(dialect.text, "scope", "key", "hash", "fields", "headers", "points"),
        **written(dialect.number, "token", "status", "rows"),
        **written(dialect.bytes, "body"),
    }


def _claim_text(dialect: Dialect, parts: Mapping[str, str]) -> str:
    free = _FREE.format(**parts)
    if dialect is SQLITE:
        # Without a WHERE the parser would read ON CONFLICT as a join's condition.
        text = _INSERT.format(**parts, source="WHERE true", free=free)
        return text.replace("RETURNING ", "RETURNING 1, ") + ", NULL" * 7
    insert = _INSERT.format(**parts, source="FROM door WHERE door.open", free=free)
    return _CLAIM_POSTGRESQL.format(**parts, insert=insert, free=free)
