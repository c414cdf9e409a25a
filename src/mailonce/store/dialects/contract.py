"""The contract of a database; one conformance suite runs on both."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Select

from mailonce.core.events.key import Key
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.decide import AskAlso, Decision, decide
from mailonce.core.ledger.effects import Routes
from mailonce.core.ledger.entry import Entry, EntryOutcome
from mailonce.core.work.job import (
    Finish,
    LeasedJob,
    LeaseRenewal,
    LeaseRequest,
    Look,
    PeerWorker,
)
from mailonce.core.work.states import WorkKey
from mailonce.errors import MailonceError, UnavailableError
from mailonce.store.schema.work_table import WorkTable

T = TypeVar("T")

# Store functions take the transaction they run in; others hand it on without looking.
Tx = Connection

DAY_MS = 86_400_000
# How many times a batch is judged anew because a neighbour won one of its keys meanwhile.
RACES_MAX = 20


class DatabaseUnavailableError(UnavailableError):
    """The database is away, refuses, or has too much to do."""

    reason = "database"


class OutcomeUnknownError(DatabaseUnavailableError):
    """The connection broke: whether the transaction committed is unknown; run it again."""

    code = "outcome_unknown"


class LockedError(DatabaseUnavailableError):
    """Another transaction holds a row for too long; its neighbours need not wait."""

    code = "locked"
    reason = "locked"


class OutdatedError(MailonceError):
    """The configuration moved on: read the routes again, or an event is not owed to a new one."""

    code = "outdated"


class SlowError(MailonceError):
    """A handler took longer than it may; nothing of it was written."""

    code = "slow"


class RowError(MailonceError):
    """The database cannot hold a value of this batch."""

    code = "row"


class Priority(IntEnum):
    """The priority of a write where there is one writer."""

    DOOR = 0
    API = 1
    WORKER = 2
    MAINTENANCE = 3


@dataclass(frozen=True, slots=True)
class Routing:
    """The routes in force at one version of the configuration."""

    version: int
    routes: Routes


class Reservation(Protocol):
    """Slots of this process's worker for deliveries that the next batch makes.

    The statement that records them also leases them, where their lane is still the owner's then.
    Such leases have the reservation's own token: whoever is in doubt whether a batch stands may end
    its leases, and can end nobody else's.
    """

    owner: bytes
    token: int

    @property
    def lease_ms(self) -> Mapping[str, int]:
        """How long deliveries are leased, by the routes that have slots for all of the batch."""

    def start(self, jobs: Sequence[LeasedJob]) -> None:
        """Begin what was leased; slots that nothing was leased for are free again."""

    def cancel(self) -> None:
        """Free the slots: nothing was leased."""

    def give_back(self) -> None:
        """Free the slots, and end the leases that may have been taken."""


# Asks for slots; given are the deliveries of each route. None where there are none.
Reserve = Callable[[Mapping[str, Sequence[WorkKey]]], Reservation | None]


def reserve_nothing(keys: Mapping[str, Sequence[WorkKey]]) -> Reservation | None:
    """Reserve no slots: there is no worker in this process."""
    del keys
    return None


@dataclass(slots=True)
class Batch:
    """Entries that become durable together, and the routes they are owed to.

    `received_ms` is read from the database's clock at the first try and then kept, so that a
    second try makes the same rows.
    """

    id: bytes
    entries: list[Entry]
    received_ms: int | None = None
    # None where nobody is owed anything, whatever the configuration says.
    routing: Routing | None = None
    # The lanes on which its commit made work due.
    owed: frozenset[str] = frozenset()
    # A try of it ended without an answer, so it may stand already.
    was_lost: bool = False
    # Asks for slots of this process's worker.
    reserve: Reserve = reserve_nothing
    reservation: Reservation | None = None
    # What its commit leased.
    leased: list[LeasedJob] = field(default_factory=list)

    @property
    def routes(self) -> Routes:
        return {} if self.routing is None else self.routing.routes

    @property
    def shared(self) -> dict[str, Any]:
        """What all its rows share, as `row_kind.BATCH` names it."""
        received_ms = self.received_ms
        assert received_ms is not None, "the batch is stamped before it is judged and written"
        return {"day": received_ms // DAY_MS, "received_ms": received_ms, "batch": self.id}

    def decide(self, owners: Mapping[Key, ClaimRow | None]) -> Decision | AskAlso:
        received_ms = self.shared["received_ms"]
        return decide(self.entries, owners, received_ms=received_ms, routes=self.routes)

    def start(self) -> None:
        """Begin what its commit leased; a try that was lost is left to `release`."""
        if self.reservation is not None and not self.was_lost:
            reservation, self.reservation = self.reservation, None
            reservation.start(self.leased)

    def release(self) -> None:
        """Free slots that are not used, and end leases of an unknown outcome."""
        reservation, self.reservation = self.reservation, None
        if reservation is None:
            return
        if self.was_lost:
            reservation.give_back()
        else:
            reservation.cancel()

    def check(self, head: "Head") -> None:
        """See that the routes are those in force.

        Raises: OutdatedError.
        """
        if self.routing is not None and self.routing.version != head.configuration:
            raise OutdatedError("the routes changed; read them again")


@dataclass(frozen=True, slots=True)
class Head:
    """The one row that every process must agree on."""

    generation: int
    rotated_ms: int
    configuration: int
    now_ms: int

    def is_rotation_due(self, window_ms: int) -> bool:
        """Say whether the current generation is a window old."""
        return self.rotated_ms > 0 and self.now_ms - self.rotated_ms >= window_ms


class Log(Protocol):
    """A database opened for reading, beside the process that writes it."""

    name: str

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a read transaction of bounded length."""

    async def close(self) -> None:
        """Close every connection."""


class Presence(Protocol):
    """A connection that lives exactly as long as its worker, which others can see."""

    session: int

    def is_closed(self) -> bool:
        """Say whether the connection broke."""

    async def close(self) -> None:
        """Hang up."""


NONE_DOWN: Mapping[str, int] = MappingProxyType({})


class Lanes(Protocol):
    """Who holds which lane, and which workers are alive; all times are the database's.

    Each call may raise UnavailableError, and OutcomeUnknownError where its outcome is unknown.
    """

    async def hold(
        self,
        lanes: Sequence[str],
        *,
        owner: bytes,
        hold_ms: int,
        down_in_ms: Mapping[str, int] = NONE_DOWN,
    ) -> set[str]:
        """Take or keep lanes that no other owner holds; say which are held.

        `down_in_ms` has those of them whose endpoints are taken to be down, and in how many
        milliseconds each is asked again: other processes read it as long as the lane is held.
        """

    async def held_down(self) -> dict[str, int]:
        """Say of each lane that a worker holds when its endpoint is asked again; 0: not down.

        Empty where there is one process, which knows it.
        """

    async def let_go(self, owner: bytes, lanes: Sequence[str] | None = None) -> None:
        """Give lanes back, so that others need not wait for their end; None: all of them."""

    async def begin(self, owner: bytes) -> Sequence[bytes] | None:
        """Free the lanes of an earlier life, and give all workers that are alive.

        None where that cannot be known: other processes have workers of their own.
        """

    async def open_presence(self, owner: bytes, lost: Callable[[], None]) -> Presence | None:
        """Let others see whether a worker lives; `lost` is called when the connection breaks.

        None where nobody could see it: there is one process, or a pooler shares connections.
        """

    async def attend(self, owner: bytes, *, session: int | None, hold_ms: int) -> None:
        """Report that a worker is alive; `session` is the lock of its presence, if it has one."""

    async def crew(self) -> list[PeerWorker]:
        """List all workers, and who of them is gone as far as this database can see."""


class Leases(Protocol):
    """One kind of work, as workers see it; errors and times as of `Lanes`."""

    async def lease(self, wants: Sequence[LeaseRequest], *, owner: bytes) -> list[LeasedJob]:
        """Lease what is due on lanes that the owner holds; each lease counts as an attempt."""

    async def renew(self, renewals: Sequence[LeaseRenewal]) -> set[WorkKey]:
        """Make leases last longer; those missing from the answer have ended, or ran out."""

    async def finish(self, finishes: Sequence[Finish]) -> set[WorkKey]:
        """End leases; those missing from the answer were lost to another worker meanwhile."""

    async def look(self) -> Look:
        """List the lanes with work, with the time until the earliest is due."""


class Signal(Protocol):
    """Notifications between processes; one may get lost."""

    async def send(self, text: str) -> None:
        """Notify every listener."""

    def is_closed(self) -> bool:
        """Say whether the connection broke."""

    async def close(self) -> None:
        """Hang up."""


# Given a text and its values, gives the rows; raises as `write` does.
RunStatement = Callable[..., Awaitable[Sequence[Any]]]


class Database(Log, Protocol):
    """A database, opened."""

    @property
    def run_statement(self) -> RunStatement | None:
        """What runs one statement, its own transaction, straight through the driver.

        None where `read` and `write` cost no more.
        """

    @property
    def lanes(self) -> Lanes:
        """The lanes of all kinds of work."""

    @property
    def deliveries(self) -> Leases:
        """The leases of deliveries."""

    def leases(self, table: WorkTable) -> Leases:
        """Open the leases of a kind of work."""

    async def open_signal(self, listener: Callable[[str], None]) -> Signal | None:
        """Listen to the other processes; None where there can be none."""

    async def record(self, batch: Batch, *, short_lock_wait: bool = False) -> list[EntryOutcome]:
        """Judge and write a batch in one transaction; the answers hold once this returns.

        `short_lock_wait`: wait hardly at all for rows that others hold.

        Raises: OutcomeUnknownError (run the same batch again), LockedError where a row is held
        elsewhere, RowError where a value cannot be stored, OutdatedError where the batch was routed
        by an older configuration, UnavailableError where nothing was written.
        """

    async def write(
        self, work: Callable[[Connection], T], *, priority: Priority = Priority.API
    ) -> T:
        """Run `work` in a write transaction of its own."""

    async def run_handler(self, work: Callable[[Connection], T], *, limit_s: float) -> T:
        """Run the user's code in a write transaction, beside the event loop.

        What `work` raises is handed on as it is, and nothing was written.
        Raises: SlowError where it took longer than `limit_s`, or than this database allows.
        """

    async def scalar(self, query: Select[Any], **values: Any) -> Any:
        """Give the one value of a query that is asked again and again, for less than a `read`.

        `values` are those of its parameters. Raises: as `read` does.
        """

    async def head(self) -> Head:
        """Read the head row and the database's clock."""

    async def probe(self, process: bytes) -> None:
        """Commit a write of this process's own, the way the door's are written.

        Raises: UnavailableError where it does not commit.
        """

    async def rotate(self, *, window_ms: int) -> bool:
        """Delete the older generation of claims and begin a new one; say whether that was due.

        Safe to call at once: the last rotation is read under the lock that rotation takes.
        """

    async def ensure_days(self, wanted: range) -> None:
        """Make room for arrivals of these days."""

    async def missing_days(self, wanted: range) -> list[str]:
        """Name the partitions that arrivals of these days would need and not find."""

    async def drop_days(self, *, before: int) -> int:
        """Delete arrivals, events and copies received before that day; say how many days."""

    async def durability(self) -> dict[str, str]:
        """Give the settings in force that a 2xx relies on, and the database's version."""
