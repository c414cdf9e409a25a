"""What the blocking and the async gate share: everything but the waiting."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from hashlib import sha256
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any, ClassVar, Generic, Literal, TypeVar, assert_never

from mailonce.errors import ConfigError, LeaseLostError, UnavailableError
from mailonce.gate.flows.outbox import REQUEST, write_request
from mailonce.gate.flows.passage import Ending, GateFlows, Recorded, Unrecorded
from mailonce.gate.rules.answer import (
    Answer,
    Outcome,
    Refusal,
    TooLarge,
    Unavailable,
    Unproven,
    accepted,
    answer,
)
from mailonce.gate.rules.arity import fault_of_point, kind_of
from mailonce.gate.rules.decision import Claim, Conflict, Decision, First, Replay, Running
from mailonce.gate.rules.http import Request, Response
from mailonce.gate.rules.points import IN_DOUBT, NESTED, OWED_TWICE, TWICE, NotDoneError, Points
from mailonce.gate.rules.policy import Policy
from mailonce.gate.sql.commit_guard import misuse
from mailonce.gate.sql.outbox import OUTBOX, OutboxSql
from mailonce.gate.sql.statements import Row, Sql, Statement
from mailonce.gate.store_contract import AnyStore, AnyTransaction

Mode = Literal["atomic", "lease"]
Observe = Callable[[Answer], None]
# A passage's `tx` is the app's only while its transaction is open.
NOT_OPEN = (
    "no transaction of the gate is open here; use `passage.tx` inside the handler, not after it "
    "has answered, and in mode 'lease' inside `passage.phase`"
)
# What the function of a recovery point is called with.
ARGUMENTS = {"once": "key", "phase": "tx"}
REDIRECTED = (
    "a handler answered %d, which is not recorded, and so its work was undone; answer 2xx, or let "
    "`Policy(terminal=…)` record redirects"
)
log = logging.getLogger("mailonce.gate")


class GateCore:
    """A gate's choices, its flows and its counters."""

    def __init__(
        self, sql: Sql, policy: Policy, mode: Mode, observe: Observe | None, outbox: str
    ) -> None:
        if mode not in ("atomic", "lease"):
            raise ConfigError(f"`mode` must be atomic or lease, it is {mode!r}")
        self.policy = policy
        self.ways = GateFlows(policy=policy, sql=sql, atomic=mode == "atomic")
        self.outbox = OutboxSql(sql.dialect, outbox)
        self._observe = observe
        self._lock = Lock()
        self._counts = dict.fromkeys(Outcome, 0)

    @property
    def counts(self) -> dict[str, int]:
        """Count the requests by outcome, since the start."""
        with self._lock:
            return {outcome.value: count for outcome, count in self._counts.items()}

    def read(self, request: Request) -> Claim | Answer | None:
        """Verify the sender, then read the claim; None: there is none, and none is needed.

        Nothing is looked up or written for a sender that is not verified.
        """
        if not isinstance(request, Request):
            raise ConfigError(
                f"the gate reads a Request of mailonce.gate, not {kind_of(request)}; write "
                "`Request(headers=…, body=…)`, or use an adapter of mailonce.gate.adapters"
            )
        if len(request.body) > self.policy.body_bytes_max:
            return self.answer(TooLarge())
        reason = self.policy.refusal_of(request)
        if reason is not None:
            log.warning("a request was refused with 401: %s", reason)
            return self.answer(Unproven(reason))
        claim = self.policy.claim_of(request)
        if isinstance(claim, Claim):
            return claim
        if claim.missing and not self.policy.key_required:
            return None
        return self.answer(claim)

    def answer(self, refusal: Refusal, *, finishes: bool = False) -> Answer:
        """Answer a request that does not run now."""
        return self.count(answer(self.policy, refusal, finishes=finishes))

    def owe(self, claim: Claim, request: Request) -> Statement:
        """Write down a request that the gate promises to finish."""
        body = write_request(claim, request)
        return self.outbox.owe_request(effect_key(claim, REQUEST), REQUEST, body)

    def deferred(self, decision: Decision) -> Answer:
        """Answer a request whose work is owed, or was done."""
        if isinstance(decision, First):
            return self.count(accepted(self.policy))
        return self.answer(decision, finishes=True)

    def unavailable(self, error: UnavailableError) -> Answer:
        """Answer that the store is unavailable, and log why."""
        log.warning("%s", error)
        return self.answer(Unavailable())

    def fail(self) -> None:
        """Count a request whose handler raised; its answer is whatever the framework makes of it.

        Whoever observes gets a plain 500 in its place.
        """
        self.count(Answer(Outcome.FAILED, Response(500)))

    def conclude(self, claim: Claim | None, ending: Ending, response: Response) -> Answer:
        """Answer a request that ran: with its own response, unless another copy was recorded."""
        match ending:
            case Recorded():
                outcome = Outcome.FIRST if claim is not None else Outcome.UNGATED
                return self.count(Answer(outcome, response))
            case Unrecorded():
                if 300 <= response.status < 400:
                    log.warning(REDIRECTED, response.status)
                return self.count(Answer(Outcome.FAILED, response))
            case Replay() | Conflict() | Running():
                return self.answer(ending)
            case _:
                assert_never(ending)

    def count(self, answer: Answer) -> Answer:
        with self._lock:
            self._counts[answer.outcome] += 1
        if self._observe is not None:
            self._observe(answer)
        return answer


def effect_key(claim: Claim, name: str) -> str:
    return sha256(f"{claim.scope}\x1f{claim.key}\x1f{name}".encode()).hexdigest()


S = TypeVar("S", bound=AnyStore)
T = TypeVar("T")
X = TypeVar("X", bound=AnyTransaction[Any])
D = TypeVar("D", bound="BaseDriver[Any, Any]")


class BaseGate(Generic[S]):
    """Lets the first copy of a request through, and answers all others.

    `atomic`: the claim, the app's change and the recorded response commit together. `lease`: the
    claim commits first and is held by a fenced lease, for work whose effects are outside.
    Raises: ConfigError where the store is of the other kind: it awaits and the gate does not.
    """

    awaits: ClassVar[bool]

    def __init__(
        self,
        store: S,
        policy: Policy | None = None,
        *,
        mode: Mode = "atomic",
        observe: Observe | None = None,
        outbox: str = OUTBOX,
    ) -> None:
        name = type(self).__name__
        demand_store(store, written=f"{name}({{}})", awaits=self.awaits)
        if policy is not None and not isinstance(policy, Policy):
            raise ConfigError(
                f"a policy is needed, not {kind_of(policy)}; write `{name}(store, Policy(…))`"
            )
        if iscoroutinefunction(getattr(store, "begin", None)) is not self.awaits:
            store_name, other = type(store).__name__, "Gate" if self.awaits else "AsyncGate"
            raise ConfigError(
                f"{name} cannot use {store_name}; use {other}, or "
                f"{'an async' if self.awaits else 'a blocking'} store"
            )
        self.store = store
        self.rules = GateCore(store.sql, policy or Policy(), mode, observe, outbox)

    @property
    def counts(self) -> dict[str, int]:
        """Count the requests by outcome, since the start."""
        return self.rules.counts


def demand_gate(given: object, *, written: str, gate: str, otherwise: str) -> None:
    """Refuse what is given to an adapter in place of a gate.

    Raises: ConfigError; of a store it says `written` with a gate made of it, else `otherwise`.
    """
    if isinstance(given, BaseGate):
        return
    if _is_store(given):
        remedy = written.format(f"{gate}(store)")
        raise ConfigError(f"a gate is needed, not {kind_of(given)}; write `{remedy}`")
    raise ConfigError(otherwise)


def demand_store(given: object, *, written: str, awaits: bool) -> None:
    """Refuse what is given in place of a store, and say which to make, by the package it is of.

    Raises: ConfigError; `written` is the call, as in `Gate({})`.
    """
    if _is_store(given):
        return
    user = written.partition("(")[0]
    needs = f"{user} needs a store, not {kind_of(given)}"
    if isinstance(given, BaseGate):
        raise ConfigError(f"{needs}; give it the gate's own, `gate.store`")
    kind = "Async" if awaits else ""
    stores = {
        "asyncpg": "AsyncpgStore(…)",
        "psycopg": f"{kind}PsycopgStore(…)",
        "psycopg_pool": f"{kind}PsycopgStore(…)",
        "sqlalchemy": f"{kind}SqlalchemyStore(…)",
    }
    package = type(given).__module__.partition(".")[0]
    store = stores.get(package, "AsyncSqlalchemyStore(…)" if awaits else "SqliteStore(path)")
    raise ConfigError(
        f"{needs}; write `{written.format(store)}`, or another of mailonce.gate.stores"
    )


def _is_store(given: object) -> bool:
    return hasattr(given, "execute_in") and hasattr(given, "begin")


def is_async(function: object) -> bool:
    """Say whether a function is async, or a part of one, or an object that is called as one."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - of objects


class BaseDriver(Generic[S, X]):
    """Runs the steps of a flow, one after the other, in one transaction at a time."""

    def __init__(self, store: S) -> None:
        self.store = store
        self._open: X | None = None

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def transaction(self) -> X:
        """Give the open transaction.

        Raises: ConfigError where none is open.
        """
        if self._open is None:
            raise ConfigError(NOT_OPEN)
        return self._open


class BasePassage(Generic[D]):
    """A passage's key and lease, for the blocking and the async gate."""

    def __init__(self, rules: GateCore, driver: D, claim: Claim | None, first: First) -> None:
        self.claim = claim
        self._driver = driver
        # Held by a lease that ends by itself, not by a transaction.
        self.leased = claim is not None and not rules.ways.atomic
        self._rules = rules
        self._first = first
        # How often this copy owed an effect, by its name.
        self._owed: dict[str, int] = {}
        # What the handler did wrong: it may swallow the error, and is refused when it answers.
        self._fault: str | None = None
        # The recovery point of which nobody knows whether it was recorded.
        self._doubtful: str | None = None
        # Another copy took the lease: what is done from now on is not recorded.
        self.lost = False
        self._ended = False

    @property
    def key(self) -> str | None:
        """Give the key as the sender wrote it; None where the request is ungated.

        In mode "revision" several contents run under one key: the app's own rows go by it.
        """
        if self.claim is None:
            return None
        return self.claim.key.removesuffix(f"#{self.claim.fingerprint}")

    @property
    def recovered(self) -> Mapping[str, Any]:
        """Give what an earlier, crashed copy had done, by recovery point."""
        return self._first.points

    @property
    def token(self) -> int:
        """Give the fencing token: it grows with each lease of the key."""
        return self._first.token

    def effect_key(self, name: str) -> str:
        """Make the key under which an outside service should know the effect `name`.

        It is equal on every try. It is not the caller's own key, which two callers may share.
        """
        return effect_key(self._claimed(), name)

    def _claimed(self) -> Claim:
        if self.claim is None:
            raise ConfigError("a request without a key has no effects to remember; demand a key")
        return self.claim

    @cached_property
    def _points(self) -> Points:
        return Points(self._first.points, bytes_max=self._rules.policy.points_bytes_max)

    def _reach(self, act: str, name: str, function: object, *, nested: bool) -> bool:
        """Say whether a recovery point was recorded before.

        Raises: ConfigError where it could not be done or recorded, UnavailableError after one in
        doubt.
        """
        if not self.leased:
            raise ConfigError("recovery points are for mode 'lease'; an atomic one has its outbox")
        fault = fault_of_point(function, act=act, name=name, argument=ARGUMENTS[act])
        if fault is not None:
            raise self._refuse(fault)
        self._check_certain()
        if self._points.is_reached(name):
            raise self._refuse(TWICE.format(name=name))
        if nested:
            raise self._refuse(NESTED.format(name=name))
        return self._points.reach(name)

    def _written(self, write: Callable[[str, object], T], name: str, value: object) -> T:
        """Write the result of a point; one whose work is yet to be done refuses the request."""
        try:
            return write(name, value)
        except NotDoneError as error:
            raise self._refuse(str(error)) from error

    def _refuse(self, fault: str) -> ConfigError:
        """Make an error that counts, even where the handler swallows it."""
        self._fault = self._fault or fault
        return misuse(fault)

    def _check_fault(self) -> None:
        if self._fault is not None:
            raise ConfigError(self._fault)

    def _check_certain(self) -> None:
        if self._doubtful is not None:
            raise UnavailableError(IN_DOUBT.format(name=self._doubtful))

    @contextmanager
    def _recorded(self, name: str) -> Iterator[None]:
        """Know of a fault while a point is recorded: its commit may have arrived, or not."""
        try:
            yield
        except LeaseLostError:
            raise
        except BaseException:
            self._doubtful = name
            raise

    def _held(self, name: str, *, held: bool) -> None:
        if not held:
            self.lost = True
            raise LeaseLostError(f"another copy holds the key since before {name!r}")

    def _owing(self, topic: str, body: bytes, name: str) -> Statement:
        self._owed[name] = self._owed.get(name, 0) + 1
        return self._rules.outbox.owe(self.effect_key(name), topic, body)

    def _check_owed(self, name: str, rows: list[Row]) -> None:
        """Refuse an effect that this copy owed before: it was left out."""
        if not rows and self._owed[name] > 1:
            raise self._refuse(OWED_TWICE.format(name=name))

    def _end(self) -> None:
        assert not self._ended, "a passage ends once: by finish or by abandon"
        self._ended = True
