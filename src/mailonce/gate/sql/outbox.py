"""The statements of the outbox: effects on the outside, committed with their cause."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from mailonce.errors import ConfigError
from mailonce.gate.sql.statements import Dialect, Row, Statement, checked_name

OUTBOX = "webhook_outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """One effect, leased to us; `key` is equal on every attempt: hand it to the outside."""

    id: int
    key: str
    topic: str
    body: bytes
    # Counted from 1, at lease time: an attempt that kills its worker counts, too.
    attempt: int
    token: int


# One that was given up is due again where its request is asked for again. What was done is not;
# but a request is, where its key was free: a refusal that is redelivered, or a forgotten key.
_OWE = """
INSERT INTO {table} AS mine (effect_key, topic, body, status, run_at, created_at)
VALUES ({key}, {topic}, {body}, 'due', {now}, {now})
ON CONFLICT (effect_key) DO UPDATE
SET body = excluded.body, status = 'due', attempts = 0, run_at = {now}
WHERE mine.status IN ({again}) RETURNING 1"""

# The end of the lease is the next time it is due: a crashed worker needs no one to clean up.
# Workers with different topics share a table: what is another's keeps its attempts.
_LEASE = """
UPDATE {table} SET run_at = {lease}, attempts = attempts + 1, fencing_token = fencing_token + 1
WHERE id IN (SELECT id FROM {table} WHERE status = 'due' AND run_at <= {now}
    AND topic IN ({topics}) ORDER BY run_at, id LIMIT {rows}{skip_locked})
RETURNING id, effect_key, topic, body, attempts, fencing_token"""

_FENCED = "WHERE id = {id} AND fencing_token = {token} AND status = 'due' RETURNING 1"
_DONE = "UPDATE {table} SET status = 'done', done_at = {now}, last_error = NULL {fenced}"
_RETRY = "UPDATE {table} SET run_at = {wait}, last_error = {error} {fenced}"
# Waiting for another copy is no attempt: it must not use up those that failures have.
_POSTPONE = "UPDATE {table} SET run_at = {wait}, attempts = attempts - 1 {fenced}"
_GIVE_UP = "UPDATE {table} SET status = 'dead', done_at = {now}, last_error = {error} {fenced}"
_REVIVE = """
UPDATE {table} SET status = 'due', attempts = 0, run_at = {now} WHERE id IN (
    SELECT id FROM {table} WHERE status = 'dead' ORDER BY id LIMIT {rows}) RETURNING 1"""
_BODY = "SELECT body FROM {table} WHERE effect_key = {key}"
_OVERDUE = """
SELECT DISTINCT topic FROM {table} WHERE status = 'due' AND run_at <= {wait}
    AND topic NOT IN ({topics}) ORDER BY topic LIMIT {rows}"""
_COUNT = "SELECT status, count(*) FROM {table} GROUP BY status"
_PRUNE = """
DELETE FROM {table} WHERE id IN (SELECT id FROM {table}
    WHERE status = 'done' AND done_at <= {wait} LIMIT {rows}{skip_locked}) RETURNING 1"""


class OutboxSql:
    """The statements for one dialect and table."""

    def __init__(self, dialect: Dialect, table: str = OUTBOX) -> None:
        parts = {
            "table": checked_name(table),
            "now": dialect.now,
            "skip_locked": dialect.skip_locked,
            "lease": dialect.after.format(":lease_s"),
            "wait": dialect.after.format(":wait_s"),
            **{name: dialect.text.format(f":{name}") for name in ("key", "topic", "error")},
            **{name: dialect.number.format(f":{name}") for name in ("id", "token", "rows")},
            "body": dialect.bytes.format(":body"),
            "topics": dialect.texts.format(":topics"),
        }
        parts["fenced"] = _FENCED.format(**parts)
        self._owe = _OWE.format(**parts, again="'dead'")
        self._owe_request = _OWE.format(**parts, again="'dead', 'done'")
        self._lease = _LEASE.format(**parts)
        self._done = _DONE.format(**parts)
        self._retry = _RETRY.format(**parts)
        self._postpone = _POSTPONE.format(**parts)
        self._give_up = _GIVE_UP.format(**parts)
        self._revive = _REVIVE.format(**parts)
        self._body = _BODY.format(**parts)
        self._overdue = _OVERDUE.format(**parts)
        self._count = _COUNT.format(**parts)
        self._prune = _PRUNE.format(**parts)

    def owe(self, key: str, topic: str, body: bytes) -> Statement:
        """Owe an effect, once per key.

        Raises: ConfigError where the body is none that every database gives back as it was.
        """
        if not isinstance(body, bytes | bytearray | memoryview):
            raise ConfigError(
                f"the effect {topic!r} has a {type(body).__name__} as its body, and `body` must be "
                "bytes; write `json.dumps(…).encode()`"
            )
        return Statement(self._owe, {"key": key, "topic": topic, "body": body})

    def body(self, key: str) -> Statement:
        """Read what is owed under a key."""
        return Statement(self._body, {"key": key})

    def owe_request(self, key: str, topic: str, body: bytes) -> Statement:
        """Owe the work of a request whose key was free, also where it was done before."""
        return Statement(self._owe_request, {"key": key, "topic": topic, "body": body})

    def lease(self, topics: Collection[str], *, lease_s: float, rows_max: int) -> Statement:
        """Lease what is due of some topics. See `owed_of`."""
        params = {"lease_s": float(lease_s), "rows": str(rows_max), "topics": _listed(topics)}
        return Statement(self._lease, params)

    def overdue(self, topics: Collection[str], *, overdue_s: float, rows_max: int) -> Statement:
        """Read which other topics have something that nobody took for some seconds."""
        params = {"wait_s": -float(overdue_s), "rows": str(rows_max), "topics": _listed(topics)}
        return Statement(self._overdue, params)

    def done(self, owed: Owed) -> Statement:
        """It took effect. No row: the lease was taken."""
        return Statement(self._done, _fenced(owed))

    def retry(self, owed: Owed, *, wait_s: float, error: str) -> Statement:
        return Statement(self._retry, _fenced(owed) | {"wait_s": float(wait_s), "error": error})

    def postpone(self, owed: Owed, *, wait_s: float) -> Statement:
        """Try again soon, as if it had not been tried."""
        return Statement(self._postpone, _fenced(owed) | {"wait_s": float(wait_s)})

    def give_up(self, owed: Owed, *, error: str) -> Statement:
        """Give up on it; it stays, with its reason."""
        return Statement(self._give_up, _fenced(owed) | {"error": error})

    def revive(self, *, rows_max: int) -> Statement:
        return Statement(self._revive, {"rows": str(rows_max)})

    def count(self) -> Statement:
        return Statement(self._count, {})

    def prune(self, *, window_s: float, rows_max: int) -> Statement:
        """Forget what was done before the window; a row comes back for each."""
        return Statement(self._prune, {"wait_s": -float(window_s), "rows": str(rows_max)})


def owed_of(rows: Sequence[Row]) -> list[Owed]:
    """Read what `lease` gave, oldest first."""
    work = [
        Owed(id=id_, key=key, topic=topic, body=bytes(body), attempt=attempt, token=token)
        for id_, key, topic, body, attempt, token in rows
    ]
    return sorted(work, key=lambda owed: owed.id)


def _listed(topics: Collection[str]) -> str:
    return json.dumps(sorted(topics))


def _fenced(owed: Owed) -> dict[str, Any]:
    return {"id": str(owed.id), "token": str(owed.token)}
