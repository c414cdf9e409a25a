"""The gate for blocking code: workers, queue consumers, WSGI apps."""

import sys
from collections.abc import Callable
from inspect import iscoroutine
from time import monotonic
from typing import Generic, TypeVar

from mailonce.errors import ConfigError, LeaseLostError, UnavailableError
from mailonce.gate.base import BaseDriver, BaseGate, BasePassage, is_async, log
from mailonce.gate.flows.outbox import finished, read_request
from mailonce.gate.flows.passage import (
    Begin,
    Commit,
    CommitWith,
    Flow,
    Rollback,
    Step,
    opening,
    undoing,
)
from mailonce.gate.rules.answer import Answer
from mailonce.gate.rules.arity import demand_arguments
from mailonce.gate.rules.decision import Claim, First
from mailonce.gate.rules.http import Request, Response, checked
from mailonce.gate.rules.keys import MISSING
from mailonce.gate.sql.commit_guard import LOCKED, is_locked
from mailonce.gate.sql.outbox import Owed
from mailonce.gate.sql.statements import Row, Statement
from mailonce.gate.store_contract import Store, Transaction

ASYNC = (
    "the function of {name!r} is async, and Gate does not await it: nothing was done; use AsyncGate"
)
Handle = TypeVar("Handle")
T = TypeVar("T")


class Gate(BaseGate[Store[Handle]], Generic[Handle]):
    """The blocking gate; `BaseGate` says what it does."""

    awaits = False

    def run(self, request: Request, work: Callable[["Passage[Handle]"], Response]) -> Answer:
        """Run `work` if this is the first copy; answer in any case.

        What `work` raises is raised again, after everything was undone or the lease let go.
        """
        return self._run(self.rules.read(request), work)

    def enter(self, request: Request) -> "Passage[Handle] | Answer":
        """Claim the request's key. A caller that gets a passage must finish or abandon it."""
        return self._enter(self.rules.read(request))

    def defer(self, request: Request) -> Answer:
        """Promise to finish the request later, in a worker; answer at once with 202.

        Invariant: the claim and the owed work commit together. The answer says `X-Mailonce-Gate:
        processing`, so that the sender retries; then it gets the response that the worker recorded.
        """
        claim = self.rules.read(request)
        if isinstance(claim, Answer):
            return claim
        if claim is None:
            return self.rules.answer(MISSING)
        flow = self.rules.ways.defer(claim, self.rules.owe(claim, request))
        try:
            return self.rules.deferred(Driver(self.store).drive(flow))
        except UnavailableError as error:
            return self.rules.unavailable(error)

    def finisher(
        self, work: Callable[["Passage[Handle]", Request], Response]
    ) -> Callable[[Owed], Answer]:
        """Make the outbox's handler for deferred requests: `{REQUEST: gate.finisher(work)}`.

        Raises: ConfigError where `work` does not take (passage, request).
        """
        demand_arguments(work, "work", "passage", "request")

        def finish(owed: Owed) -> Answer:
            claim, request = read_request(owed.body)
            return finished(self._run(claim, lambda passage: work(passage, request)))

        return finish

    def check(self) -> None:
        """See at the start that the tables are there and can be read.

        Raises: UnavailableError that says what is missing, and how to make it.
        """
        Driver(self.store).drive(self.rules.ways.check())

    def prune(self, *, rows_max: int = 1000) -> int:
        """Forget up to `rows_max` records whose window has ended; say how many.

        Raises: UnavailableError.
        """
        return Driver(self.store).drive(self.rules.ways.prune(rows_max=rows_max))

    def _run(
        self, claim: Claim | Answer | None, work: Callable[["Passage[Handle]"], Response]
    ) -> Answer:
        passage = self._enter(claim)
        if isinstance(passage, Answer):
            return passage
        try:
            response = work(passage)
        except LeaseLostError:
            return passage.yield_to_holder()
        except UnavailableError as error:
            passage.undo()
            return self.rules.unavailable(error)
        except BaseException:
            passage.abandon()
            raise
        return passage.finish(response)

    def _enter(self, claim: Claim | Answer | None) -> "Passage[Handle] | Answer":
        if isinstance(claim, Answer):
            return claim
        driver = Driver(self.store)
        try:
            decision = driver.drive(self.rules.ways.enter(claim))
        except UnavailableError as error:
            return self.rules.unavailable(error)
        if isinstance(decision, First):
            return Passage(self.rules, driver, claim, decision)
        return self.rules.answer(decision)


class Passage(BasePassage["Driver[Handle]"], Generic[Handle]):
    """The hold of the first copy on its key, while the app's code runs."""

    # When the recovery point began that runs now, on the monotonic clock.
    _point_since: float | None = None

    @property
    def tx(self) -> Handle:
        """Give the app's connection or session, in the transaction that the claim is part of."""
        return self._driver.transaction.handle

    def finish(self, response: Response) -> Answer:
        """Record the response with the work, commit, and give what may now be sent.

        Raises: ConfigError where it is no response; then everything is undone.
        """
        try:
            checked(response)
            self._check_fault()
            self._check_certain()
        except ConfigError:
            self.abandon()
            raise
        except UnavailableError as error:
            self.undo()
            return self._rules.unavailable(error)
        self._end()
        try:
            ending = self._driver.drive(self._rules.ways.finish(self.claim, self._first, response))
        except UnavailableError as error:
            return self._rules.unavailable(error)
        return self._rules.conclude(self.claim, ending, response)

    def abandon(self) -> None:
        """Undo the work, and count it as failed."""
        if self._driver.is_open and is_locked(sys.exception()):
            # The app's own connection: only the log can say what held the lock.
            log.error(LOCKED)
        self.undo()
        self._rules.fail()

    def undo(self) -> None:
        """Undo the work, or release the lease: the next copy may try at once.

        Nothing is counted: for a passage that is answered in another way.
        """
        self._end()
        try:
            self._driver.drive(self._rules.ways.abandon(self.claim, self._first))
        except UnavailableError:
            # The lease then ends by itself.
            return

    def yield_to_holder(self) -> Answer:
        """Answer as the copy that took the lease would be answered."""
        self._end()
        try:
            seen = self._driver.drive(self._rules.ways.look(self._claimed()))
        except UnavailableError as error:
            return self._rules.unavailable(error)
        return self._rules.answer(seen)

    def renew(self) -> bool:
        """Renew the lease; False: it was lost, stop working.

        A recovery point that takes longer than `point_s` hangs: then the lease is left to end.
        """
        since, point_s = self._point_since, self._rules.policy.point_s
        if since is not None and monotonic() - since > point_s:
            return False
        flow = self._rules.ways.renew(self._claimed(), self._first)
        self.lost = self.lost or not Driver(self._driver.store).drive(flow)
        return not self.lost

    def owe(self, topic: str, body: bytes, *, name: str | None = None) -> None:
        """Owe an effect outside the database, in this transaction: an `Outbox` worker does it.

        `name` tells several effects of one topic apart; a second one of a name is refused.

        Raises: UnavailableError.
        """
        name = name or topic
        rows = self._driver.transaction.execute(self._owing(topic, body, name))
        self._check_owed(name, rows)

    def once(self, name: str, call: Callable[[str], T]) -> T:
        """Do an outside effect and record its result; where it is recorded already, give that.

        `call` gets the effect's own key, to hand to the outside: a crash between the effect and
        its record repeats the call, and only whoever is called can tell that it is a repeat.
        Its result must be JSON.

        Raises: LeaseLostError where another copy took over, UnavailableError, ConfigError.
        """
        self._demand_blocking(call, name)
        if not self._reach("once", name, call, nested=self._driver.is_open):
            self._point_since = monotonic()
            try:
                value = call(self.effect_key(name))
                self._demand_result(value, name)
                added, fault = self._written(self._points.of_call, name, value)
            except BaseException:
                self._points.leave(name)
                raise
            finally:
                self._point_since = None
            with self._recorded(name):
                self._driver.drive(opening())
                self._keep(name, added)
            if fault is not None:
                raise fault
        known: T = self._points.result(name)
        return known

    def phase(self, name: str, work: Callable[[Handle], T]) -> T:
        """Change the app's own database and record it, together; recorded already: give that.

        What `work` gives must be JSON.

        Raises: LeaseLostError where another copy took over; then the change is undone. ConfigError.
        """
        self._demand_blocking(work, name)
        if not self._reach("phase", name, work, nested=self._driver.is_open):
            self._point_since = monotonic()
            try:
                self._change(name, work)
            except BaseException:
                self._points.leave(name)
                raise
            finally:
                self._point_since = None
        known: T = self._points.result(name)
        return known

    def _change(self, name: str, work: Callable[[Handle], object]) -> None:
        self._driver.drive(opening())
        try:
            value = work(self.tx)
            self._demand_result(value, name)
            added = {name: self._written(self._points.of_phase, name, value)}
        except BaseException:
            self._driver.drive(undoing())
            raise
        with self._recorded(name):
            self._keep(name, added)

    def _keep(self, name: str, added: dict[str, str]) -> None:
        points = self._points.joined(added)
        held = self._driver.drive(self._rules.ways.keep(self._claimed(), self._first, points))
        self._held(name, held=held)
        self._points.keep(added)

    def _demand_blocking(self, function: Callable[..., object], name: str) -> None:
        """Refuse a function that would have to be awaited, before it is called."""
        if is_async(function):
            raise self._refuse(ASYNC.format(name=name))

    def _demand_result(self, value: object, name: str) -> None:
        if iscoroutine(value):
            value.close()
            raise self._refuse(ASYNC.format(name=name))


class Driver(BaseDriver[Store[Handle], Transaction[Handle]], Generic[Handle]):
    def drive(self, flow: Flow[T]) -> T:
        """Run a flow to its end; on a fault, undo what is open."""
        rows: list[Row] | None = None
        try:
            while True:
                step = next(flow) if rows is None else flow.send(rows)
                rows = self._do(step)
        except StopIteration as end:
            result: T = end.value
            return result
        except BaseException:
            self._do(Rollback())
            raise

    def _do(self, step: Step) -> list[Row]:
        if isinstance(step, Statement):
            return self.transaction.execute(step)
        if isinstance(step, Begin):
            assert self._open is None, "a flow has one transaction at a time"
            self._open = self.store.begin(write=step.write)
        elif self._open is not None:
            ending, self._open = self._open, None
            if isinstance(step, CommitWith):
                return ending.commit_with(step.last)
            if isinstance(step, Commit):
                ending.commit()
            else:
                ending.rollback()
        return []
