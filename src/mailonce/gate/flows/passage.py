"""The gate's flows: each yields its steps, and leaves doing them to a driver.

Each flow is a generator: it yields what must be done next to the database, and is sent the rows
that came back. One driver runs them with calls that block, another with `await`.
"""

import json
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from mailonce.gate.rules.decision import (
    REFUSAL,
    Claim,
    Conflict,
    Decision,
    First,
    Replay,
    Running,
    judge,
)
from mailonce.gate.rules.http import Response
from mailonce.gate.rules.policy import Policy
from mailonce.gate.sql.commit_guard import ENDED, misuse
from mailonce.gate.sql.statements import Hold, Row, Sql, Statement, record_of


@dataclass(frozen=True, slots=True)
class Begin:
    """Open a transaction; one that will `write` may have to wait for the lock."""

    write: bool = True


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the transaction, and give its connection back."""


@dataclass(frozen=True, slots=True)
class CommitWith:
    """Run a last statement and commit, if it gave a row; else undo."""

    last: Statement


@dataclass(frozen=True, slots=True)
class Rollback:
    """Undo the transaction, and give its connection back."""


Step = Begin | Statement | Commit | CommitWith | Rollback
T = TypeVar("T")
Flow = Generator[Step, list[Row], T]


def opening() -> Flow[None]:
    """Open a transaction for the app's own statements, and leave it open.

    A store may send its BEGIN along with the gate's first statement only; so there is one.
    """
    yield Begin()
    yield Statement("SELECT 1", {}, given=(1,))


def single(statement: Statement, *, write: bool = True) -> Flow[list[Row]]:
    """Run one statement in a transaction of its own."""
    yield Begin(write=write)
    rows = yield statement
    yield Commit()
    return rows


def undoing() -> Flow[None]:
    yield Rollback()


@dataclass(frozen=True, slots=True)
class Recorded:
    """The response is recorded and final."""


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Nothing was kept; the key may be tried again."""


Ending = Recorded | Unrecorded | Replay | Conflict | Running


@dataclass(frozen=True, kw_only=True)
class GateFlows:
    """The flows of one gate. `atomic`: the claim and the work share a transaction."""

    policy: Policy
    sql: Sql
    atomic: bool

    def enter(self, claim: Claim | None) -> Flow[Decision]:
        """Claim the key. Where it was ours in atomic mode, the transaction stays open.

        Invariant: an atomic claim is seen by nobody before its work is; a crash keeps neither.
        """
        if claim is None:
            if self.atomic:
                yield from opening()
            return First(0)
        decision = yield from self._claim(claim, self._hold)
        if isinstance(decision, First) and not self.atomic:
            yield Commit()
        return decision

    def defer(self, claim: Claim, owe: Statement) -> Flow[Decision]:
        """Claim the key and queue its work, together: a worker finishes it, even if we crash.

        A copy that finds the work still queued queues it again, which changes nothing.
        """
        hold = Hold(window_s=self.policy.window_s, atomic=False)
        decision = yield from self._claim(claim, hold)
        if isinstance(decision, First):
            yield owe
            yield Commit()
        return decision

    def finish(self, claim: Claim | None, first: First, response: Response) -> Flow[Ending]:
        """Record the response together with the work, or undo the work.

        A refusal is recorded, but what it did before it refused is not kept.
        """
        kept = self.policy.kept(response)
        if claim is None:
            if self.atomic:
                yield Rollback() if kept is None or _refuses(kept) else Commit()
            return Unrecorded() if kept is None else Recorded()
        if kept is None:
            yield from self.abandon(claim, first)
            return Unrecorded()
        if not self.atomic:
            yield Begin()
        elif _refuses(kept):
            yield Rollback()
            return (yield from self._refuse(claim, kept))
        if (yield CommitWith(self.sql.complete(claim, first.token, kept))):
            return Recorded()
        if self.atomic:
            # Nobody else could take it: the claim went away with the transaction that held it.
            raise misuse(ENDED)
        return (yield from self.look(claim))

    def abandon(self, claim: Claim | None, first: First) -> Flow[None]:
        """Release the key, so that the next copy may try at once."""
        if self.atomic:
            yield Rollback()
        elif claim is not None:
            yield from single(self.sql.renew(claim, first.token, lease_s=0))

    def renew(self, claim: Claim, first: First) -> Flow[bool]:
        """Renew the lease; False: it was lost, and nothing we do from now on counts."""
        renew = self.sql.renew(claim, first.token, lease_s=self.policy.lease_s)
        return bool((yield from single(renew)))

    def keep(self, claim: Claim, first: First, points: str) -> Flow[bool]:
        """Keep recovery points, and what else the open transaction changed; False: lease lost."""
        return bool((yield CommitWith(self.sql.point(claim, first.token, points))))

    def look(self, claim: Claim) -> Flow[Replay | Conflict | Running]:
        """Read the record after our lease was lost: that of the copy that took it counts."""
        return (yield from self._known(claim)) or Running()

    def check(self) -> Flow[None]:
        """Read a record that nobody has, as each request does."""
        yield from self._known(Claim(scope="", key="", fingerprint="", fields={}))

    def prune(self, *, rows_max: int) -> Flow[int]:
        """Forget what is older than the window."""
        return len((yield from single(self.sql.prune(rows_max=rows_max))))

    @cached_property
    def _hold(self) -> Hold:
        lease_s = None if self.atomic else float(self.policy.lease_s)
        return Hold(window_s=float(self.policy.window_s), atomic=self.atomic, lease_s=lease_s)

    def _known(self, claim: Claim) -> Flow[Replay | Conflict | Running | None]:
        yield Begin(write=False)
        known = record_of((yield self.sql.read(claim)))
        yield Rollback()
        return judge(claim, known)

    def _claim(self, claim: Claim, hold: Hold) -> Flow[Decision]:
        """Take the key in a transaction that stays open where it was ours."""
        if self.sql.dialect.looks_first:
            known = yield from self._known(claim)
            if known is not None:
                return known
        yield Begin()
        decision = yield from self._take(claim, hold)
        if not isinstance(decision, First):
            yield Rollback()
        return decision

    def _take(self, claim: Claim, hold: Hold) -> Flow[Decision]:
        """Insert the claim; where it cannot be inserted, judge by the record that is there."""
        rows = yield self.sql.claim(claim, hold)
        if rows:
            return First(int(rows[0][0]))
        known = record_of((yield self.sql.read(claim)))
        decision = judge(claim, known)
        if decision is not None:
            return decision
        if known is None:
            # Another copy runs: what it does is not committed yet.
            return Running()
        rows = yield self.sql.take_over(claim, hold)
        return First(int(rows[0][0]), json.loads(rows[0][1])) if rows else Running()

    def _refuse(self, claim: Claim, kept: Response) -> Flow[Ending]:
        """Record a refusal by itself. If another copy was recorded in between, that one counts."""
        yield Begin()
        decision = yield from self._take(claim, self._hold)
        if not isinstance(decision, First):
            yield Rollback()
            return decision
        yield CommitWith(self.sql.complete(claim, decision.token, kept))
        return Recorded()


def _refuses(kept: Response) -> bool:
    return kept.status >= REFUSAL
