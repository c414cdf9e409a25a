"""The outbox's flows: lease, try, settle; each yields its steps and does none itself."""

import json
import re
import traceback
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from mailonce.errors import MailonceError, UnavailableError
from mailonce.gate.flows.passage import Flow, single
from mailonce.gate.rules.answer import Answer, Outcome
from mailonce.gate.rules.decision import Claim
from mailonce.gate.rules.http import Request
from mailonce.gate.sql.outbox import OutboxSql, Owed, owed_of
from mailonce.gate.sql.statements import absent_table

# Requests that the gate itself has promised to finish.
REQUEST = "mailonce.gate.request"
ERROR_CHARS_MAX = 500
# Another copy is running, or the connection of a crashed one has not ended yet.
BUSY_S = 1.0
# What waits for longer than this probably has no worker; how many of its topics are told at a time.
OVERDUE_S = 10.0
OVERDUE_TOPICS_MAX = 20
ABSENT = (
    "the database that the handler used has no table {table!r}; make it there, with the app's "
    "migrations, or give the handler the database that has it"
)

# Of nobody; errors say to write an address like this one.
_EXAMPLE = "name@example.com"
_ADDRESS = re.compile(r"[^\s@<>'\"`]+@[^\s@<>'\"`]+")


class BusyError(UnavailableError):
    """Another worker has the same key at this moment."""

    code = "busy"


class GiveUpError(MailonceError):
    """An effect would fail again however often it is tried; its words are the reason kept."""

    code = "give_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The worker's settings. `lease_s` must be well above the slowest effect."""

    lease_s: float = 60
    # How many are tried in one `drain`, each leased when its turn comes.
    rows_max: int = 20
    waits_s: tuple[float, ...] = (5, 30, 120, 600, 1800, 3600, 10_800, 21_600)
    window_s: float = 35 * 86_400

    def after_failure(self, attempt: int) -> float | None:
        """Say how long to wait after the failure of `attempt`, counted from 1; None: give up."""
        assert attempt >= 1, f"attempts are counted from 1, got {attempt}"
        return self.waits_s[attempt - 1] if attempt <= len(self.waits_s) else None


@dataclass(frozen=True, slots=True)
class OutboxFlows:
    """The flows of an outbox."""

    sql: OutboxSql
    pace: Pace = field(default_factory=Pace)

    def lease(self, topics: Collection[str]) -> Flow[Owed | None]:
        """Lease the next of `topics` that is due, in one short transaction.

        One at a time, just before it is tried: what waits for its turn under a lease may lose it.
        """
        rows = yield from single(self.sql.lease(topics, lease_s=self.pace.lease_s, rows_max=1))
        return next(iter(owed_of(rows)), None)

    def overdue(self, topics: Collection[str]) -> Flow[list[str]]:
        """Find topics other than `topics` that no worker seems to handle."""
        statement = self.sql.overdue(topics, overdue_s=OVERDUE_S, rows_max=OVERDUE_TOPICS_MAX)
        return [str(topic) for (topic,) in (yield from single(statement, write=False))]

    def may_start(self, *, waited_s: float) -> bool:
        """Say whether a lease that is `waited_s` old still leaves time for the effect."""
        return waited_s < self.pace.lease_s / 2

    def settle(self, owed: Owed, failure: BaseException | None) -> Flow[bool]:
        """Record the outcome of one; False: our lease was lost, and nothing is recorded."""
        if failure is None:
            ending = self.sql.done(owed)
        elif isinstance(failure, BusyError):
            ending = self.sql.postpone(owed, wait_s=BUSY_S)
        else:
            error, wait_s = reason_of(failure), self.wait_s(owed, failure)
            if wait_s is None:
                ending = self.sql.give_up(owed, error=error)
            else:
                ending = self.sql.retry(owed, wait_s=wait_s, error=error)
        return bool((yield from single(ending)))

    def wait_s(self, owed: Owed, failure: BaseException) -> float | None:
        """Say after how long a failure is tried again; None: it is given up."""
        return None if isinstance(failure, GiveUpError) else self.pace.after_failure(owed.attempt)

    def note(self, owed: Owed, failure: BaseException) -> str:
        """Write a failure for a log, without the addresses that a sentence may quote."""
        wait_s = self.wait_s(owed, failure)
        then = "given up; see last_error" if wait_s is None else f"tried again in {wait_s:g} s"
        reason = _ADDRESS.sub(_masked, reason_of(failure))
        at = "" if isinstance(failure, MailonceError) else _place_of(failure)
        return f"effect {owed.id} ({owed.topic}), attempt {owed.attempt}: {reason}{at}; {then}"

    def revive(self, *, rows_max: int) -> Flow[int]:
        return len((yield from single(self.sql.revive(rows_max=rows_max))))

    def count(self) -> Flow[dict[str, int]]:
        rows = yield from single(self.sql.count(), write=False)
        return {"due": 0, "done": 0, "dead": 0} | {str(status): int(n) for status, n in rows}

    def prune(self, *, rows_max: int) -> Flow[int]:
        """Delete what was done long ago; dead effects stay until they are retried."""
        statement = self.sql.prune(window_s=self.pace.window_s, rows_max=rows_max)
        return len((yield from single(statement)))


def _place_of(failure: BaseException) -> str:
    """Say where an exception was raised: its own words are not for a log."""
    frames = traceback.extract_tb(failure.__traceback__)
    if not frames:
        return ""
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name}"


def _masked(address: re.Match[str]) -> str:
    return address[0] if address[0].rstrip(".,;") == _EXAMPLE else "[address]"


def reason_of(failure: BaseException) -> str:
    """Say why an effect failed: our own errors with their sentence, others by their type alone.

    Messages of outside services hold addresses and secrets. A missing table is named: its handler
    fails until somebody makes it.
    """
    name = type(failure).__name__
    if isinstance(failure, GiveUpError):
        return str(failure)[:ERROR_CHARS_MAX]
    table = None if isinstance(failure, MailonceError) else absent_table(failure)
    if table is not None:
        return f"{name}: {ABSENT.format(table=table)}"[:ERROR_CHARS_MAX]
    return (f"{name}: {failure}" if isinstance(failure, MailonceError) else name)[:ERROR_CHARS_MAX]


def finished(answer: Answer) -> Answer:
    """Give the answer of a request that is done.

    Raises: BusyError, or UnavailableError where the work itself did not end.
    """
    if answer.outcome in (Outcome.FIRST, Outcome.REPLAYED):
        return answer
    if answer.outcome is Outcome.RUNNING:
        raise BusyError("another copy of the request runs; try again")
    raise UnavailableError(f"the request is {answer.outcome}; try again")


def write_request(claim: Claim, request: Request) -> bytes:
    """Write a request that is owed, without the headers that only served to prove it."""
    kept = [pair for pair in request.headers if pair[0].lower() == "content-type"]
    head = {
        "scope": claim.scope,
        "key": claim.key,
        "fingerprint": claim.fingerprint,
        "fields": dict(claim.fields),
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "headers": kept,
    }
    return json.dumps(head).encode() + b"\n" + request.body


def read_request(body: bytes) -> tuple[Claim, Request]:
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    claim = Claim(
        scope=head["scope"], key=head["key"], fingerprint=head["fingerprint"], fields=head["fields"]
    )
    headers = tuple((name, value) for name, value in head["headers"])
    request = Request(
        headers=headers,
        body=rest,
        method=head["method"],
        path=head["path"],
        query=head.get("query", ""),
    )
    return claim, request
