"""Deliberately broken twins of the server: `python mutants.py NAME serve …` runs one.

Each takes one line of defence away. A test that still passes against a twin is no test.
"""

import asyncio
import sys
from typing import Any

from mailonce.core.events import facts, key
from mailonce.core.ledger import effects
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.core.work import job as job_
from mailonce.core.work import lifecycle
from mailonce.edge.cli.main import run
from mailonce.pipeline import record, waiting
from mailonce.queue import attempt
from mailonce.store.dialects.postgres import claim_sql as postgres_sql
from mailonce.store.dialects.postgres import fenced_leases
from mailonce.store.dialects.sqlite import database


def answer_before_commit() -> None:
    """Acknowledge at once and record in the background, as many receivers do."""
    real = record.Recorder.submit

    def short_lock_wait(self: record.Recorder, entry: Entry, tell: waiting.Tell) -> None:
        loop = asyncio.get_running_loop()
        # Long enough for a kill on a busy machine to come first.
        loop.call_later(5.0, real, self, entry, lambda _: None)
        tell(ArrivalOutcome(Status.ACCEPTED, len(entry.events), len(entry.events)))

    record.Recorder.submit = short_lock_wait  # type: ignore[method-assign]


def arrival_time_in_the_merge() -> None:
    """Stamp facts and suppressions with the time we received them."""

    def stamp_of(occurred_ms: int | None, key: key.Key, *, received_ms: int) -> facts.Stamp | None:
        del occurred_ms
        return facts.stamp_of(received_ms, key, received_ms=received_ms)

    effects.stamp_of = stamp_of  # type: ignore[attr-defined]


def conflict_as_duplicate() -> None:
    """Look at keys alone, never at content."""

    def blind(self: key.Recipe, fields: Any) -> key.Fingerprint:
        del self, fields
        return key.Fingerprint(bytes(16))

    key.Recipe.fingerprint = blind  # type: ignore[method-assign]


def key_from_our_clock() -> None:
    """Put the time of receipt into the key."""
    import time

    real = key.KeyScope.key

    def clocked(self: key.KeyScope, inputs: list[Any]) -> key.Key:
        return real(self, [*inputs, time.monotonic_ns()])

    key.KeyScope.key = clocked  # type: ignore[method-assign]


def older_generation_forgotten() -> None:
    """Look for owners in the current generation only."""
    postgres_sql.OWNERS = postgres_sql.OWNERS.replace(
        "SELECT key, fingerprint, owner FROM claims_0 WHERE key = ANY($1::bytea[])\n    UNION ALL",
        "SELECT key, fingerprint, owner FROM claims_0 WHERE key = ANY($1::bytea[])\n"
        "        AND (SELECT generation % 2 = 0 FROM head)\n    UNION ALL",
    ).replace(
        "FROM claims_1 WHERE key = ANY($1::bytea[])",
        "FROM claims_1 WHERE key = ANY($1::bytea[]) AND (SELECT generation % 2 = 1 FROM head)",
    )
    real = database.SqliteDatabase._owners

    def current_only(self: Any, keys: Any) -> dict[key.Key, ClaimRow | None]:
        parity = self._head().generation % 2
        owners = real(self, keys)
        return {
            k: owner
            for k, owner in owners.items()
            if owner is None
            or self._connection.execute(
                f"SELECT 1 FROM claims_{parity} WHERE key = ?", (k,)
            ).fetchone()
        } | {k: None for k in keys if k not in owners}

    def patched(self: Any, keys: Any) -> dict[key.Key, ClaimRow | None]:
        owners = current_only(self, keys)
        return {k: owners.get(k) for k in keys}

    database.SqliteDatabase._owners = patched  # type: ignore[method-assign]


def finish_without_fence() -> None:
    """Believe whoever comes to end a lease."""
    fenced_leases.FENCE = "WHERE d.key = r.key"


def finish_before_request() -> None:
    """Call a delivery done, then make the request."""
    real = attempt.Attempts._run

    async def early(self: Any, settings: Any, job: Any) -> Any:
        done = lifecycle.finish(job.key, job.token, job_.End.DONE)
        await self._finisher._leases.finish([done])
        return await real(self, settings, job)

    attempt.Attempts._run = early  # type: ignore[method-assign]


MUTANTS = {
    function.__name__: function
    for function in (
        answer_before_commit,
        arrival_time_in_the_merge,
        conflict_as_duplicate,
        key_from_our_clock,
        older_generation_forgotten,
        finish_without_fence,
        finish_before_request,
    )
}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)]()
    run()
