"""Deliberately broken twins of the server: `python mutants.py NAME serve …` runs one.

Each takes one line of defence away. A test that still passes against a twin is no test.
"""

import asyncio
import os
import sys
from dataclasses import replace
from typing import Any

import orjson
from msgspec import structs

from mailonce.core.events import facts, key
from mailonce.core.inboxes import mail_items
from mailonce.core.ledger import effects
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.core.work import job as job_
from mailonce.core.work import lifecycle
from mailonce.edge.cli.main import run
from mailonce.edge.http import problems
from mailonce.inbox import accept, digest_mail
from mailonce.inbox.expectations import match_messages
from mailonce.pipeline import match_mail, record, waiting
from mailonce.queue import attempt
from mailonce.store.dialects.postgres import claim_keys_sql as postgres_sql
from mailonce.store.dialects.postgres import fenced_leases
from mailonce.store.dialects.sqlite import database
from mailonce.store.expectations import artifacts, consumptions, standing
from mailonce.store.inboxes import messages
from mailonce.views import expectations as views
from mailonce.views import explanation


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

    def current_only(
        self: Any, keys: list[key.Key], parities: tuple[int, ...] = (0, 1)
    ) -> dict[key.Key, ClaimRow | None]:
        del parities
        return real(self, keys, (self._head().generation % 2,))

    database.SqliteDatabase._owners = current_only  # type: ignore[method-assign]


def finish_without_fence() -> None:
    """Believe whoever comes to end a lease."""
    fenced_leases.FENCE = "WHERE d.key = r.key"


def finish_before_request() -> None:
    """Call a delivery done, then make the request."""
    real = attempt.Attempts.make

    async def early(self: Any, lane: Any, job: Any, *, until_s: float) -> None:
        done = lifecycle.finish(job.key, job.token, job_.End.DONE)
        await self._finisher._leases.finish([done])
        await real(self, lane, job, until_s=until_s)

    attempt.Attempts.make = early  # type: ignore[method-assign]


def put(module: Any, name: str, value: Any) -> None:
    """Put something else in the place of what a module has."""
    assert hasattr(module, name), f"{module.__name__} has no {name} any more"
    setattr(module, name, value)


def delivery_without_a_key() -> None:
    """Know no delivery of a mail again."""

    def new_key(*arguments: Any, **others: Any) -> Any:
        # Where a delivery has no id of its own, it is known by its mail's key.
        return tuple(
            structs.replace(item, key=os.urandom(16))
            if isinstance(item, mail_items.DeliveryItem)
            else replace(item, key=os.urandom(16))
            for item in real(*arguments, **others)
        )

    real: Any = mail_items.mail_items
    for module in (accept, match_mail):
        put(module, "mail_items", new_key)


def message_without_a_key() -> None:
    """Give each mail a message of its own, whatever it says."""

    def random_id(*_: object) -> str:
        return f"msg_{os.urandom(16).hex()}"

    put(digest_mail, "message_id_of", random_id)


def artifact_without_a_key() -> None:
    """Make an artifact of each value that is found, known or not."""

    def ensure(tx: Any, wanted: Any, *, now_ms: int) -> bytes:
        other = wanted._replace(digests=(os.urandom(32),))
        return real(tx, other, now_ms=now_ms)

    real = artifacts.ensure
    put(artifacts, "ensure", ensure)


def consumption_without_a_holder() -> None:
    """Look whether an artifact is free, and trust that it stays so."""

    def unguarded(tx: Any, consumption: Any) -> bool:
        # The database's own word is taken away as well.
        tx.exec_driver_sql("DROP INDEX IF EXISTS consumptions_holder")
        return real(tx, consumption)

    def free(consumptions_: Any) -> dict[bytes, Any]:
        del consumptions_
        return {}

    real = consumptions.put
    put(consumptions, "put", unguarded)
    put(standing, "standings", free)


def subject_in_an_error() -> None:
    """Tell an agent in the error which mail came instead."""
    subjects: list[str] = [""]

    def noting(expectation: Any, message: Any, *, received_ms: int) -> Any:
        subjects.append(message["subject"])
        return real(expectation, message, received_ms=received_ms)

    def telling(kind: str, members: Any, **_: Any) -> tuple[str, dict[str, Any]]:
        del kind, members
        return f"nothing to consume; the last mail was {subjects[-1]!r}", {}

    module: Any = match_messages
    real = module.match_mail
    put(match_messages, "match_mail", noting)
    put(problems, "agent_problem", telling)


def display_name_in_explain() -> None:
    """Explain a mail to an agent by the name of its sender, past the grammar."""

    def named(caller: Any, known: Any, mail: Any) -> dict[str, Any]:
        return {**real(caller, known, mail), "name": names.get(mail.message)}

    def reading(tx: Any, caller: Any, id_: bytes, routes: list[str]) -> Any:
        read = real_read(tx, caller, id_, routes)
        for mail in read.mails:
            row = messages.get(tx, read.known.expectation.inbox, mail.message)
            if row is not None:
                names[mail.message] = (orjson.loads(row.document)["from"] or {}).get("name")
        return read

    def all_of_it(shown: Any, *, states: Any = ()) -> Any:
        del states
        return shown

    names: dict[str, str | None] = {}
    real, real_read = explanation._mail, explanation._read
    explanation._mail, explanation._read = named, reading
    put(views, "agent_view", all_of_it)


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
        delivery_without_a_key,
        message_without_a_key,
        artifact_without_a_key,
        consumption_without_a_holder,
        subject_in_an_error,
        display_name_in_explain,
    )
}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)]()
    run()
