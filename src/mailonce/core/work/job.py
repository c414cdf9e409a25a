"""A job: a delivery on lease to a worker, and the outcome of the attempt."""

from enum import IntEnum, auto
from typing import NamedTuple

from msgspec import Struct

from mailonce.core.work.states import AttemptKind, State, WorkKey

# Beyond this an endpoint's answer is not kept.
ANSWER_BYTES_MAX = 4_096
ERROR_CHARS_MAX = 300
LEASE_LOST = "lease_lost"


class LeaseRequest(NamedTuple):
    """How many deliveries of a route can start now, and from which lane first.

    None stands for no lane.
    """

    route: str
    most: int
    lease_ms: int
    lanes: tuple[AttemptKind, AttemptKind | None, AttemptKind | None]


class LeaseRenewal(NamedTuple):
    """A lease that is to last `lease_ms` from now on, since its attempt is still under way."""

    key: WorkKey
    token: int
    lease_ms: int


class LeasedJob(NamedTuple):
    """One attempt to make; `token` is the fence, `left_ms` the time to the deadline."""

    key: WorkKey
    token: int
    route: str
    lane: AttemptKind
    # Counted from 1, this one included.
    attempt: int
    round_began: int
    redeliveries: int
    left_ms: int
    made_ms: int
    # None where the log forgot it: then there is nothing to send.
    body: bytes | None

    @property
    def step(self) -> int:
        """Which attempt of the present round this is, from 1."""
        return self.attempt - self.round_began


class LostLease(NamedTuple):
    """A lease that ran out: its delivery is due again, or dead after too many of them."""

    route: str
    is_dead: bool


class OwedLane(NamedTuple):
    """A lane with work, and in how many milliseconds it is due; negative: since when."""

    route: str
    due_in_ms: int


class PeerWorker(NamedTuple):
    """One of the workers in the database, as another sees it."""

    owner: bytes
    # It reported lately that it is alive; one that is paused did not, but may come back.
    is_present: bool
    # Its session has ended, so it will never come back.
    is_gone: bool
    # How many lanes it holds.
    lanes: int = 0


class Look(NamedTuple):
    """What a worker's look each second gives, and the database's clock."""

    now_ms: int
    owed: list[OwedLane]
    # Leases ran out whose workers never came back.
    has_lost: bool


class AttemptOutcome(Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of an attempt: an answer's status, or the error where there was none."""

    status: int | None = None
    error: str | None = None
    answer: bytes = b""
    retry_after_ms: int | None = None
    # The receiver has it and is not done: a 202 of the gate.
    processing: bool = False
    # Our own guard refused it, not the endpoint.
    refused: bool = False
    # The handler said that trying again is pointless.
    final: bool = False
    # There was nothing to run, for this reason: it is given up without a request.
    dead_reason: str | None = None
    # Nothing was begun: the lease is given back as if it had not been taken.
    is_untried: bool = False
    # It ended its lease itself, in this way, and is not judged any more.
    end: str | None = None
    # Where it ended its lease itself: in how many milliseconds it is due again, if it is.
    due_in_ms: int | None = None
    # The endpoint wants no request at all for so long, whatever it is about.
    pause_ms: int | None = None


class End(IntEnum):
    """How a lease ends; `core/work/lifecycle.py` says what follows."""

    DONE = auto()
    RETRY = auto()
    DEAD = auto()
    # It was never started: the lease is given back as if it had not been taken.
    UNTRIED = auto()
    # Nobody ended it; the second once that happened too often.
    LOST = auto()
    LOST_TOO_OFTEN = auto()


class Finish(NamedTuple):
    """The end of a lease, to be written where key and token still stand together.

    `lifecycle.finish` makes one. Statements are given fields by these names.
    """

    key: WorkKey
    token: int
    state: State
    # The earliest lane that it may be in from now on.
    lane: AttemptKind
    # None where it is due as before.
    due_in_ms: int | None
    # How long the attempt took, up to now.
    latency_ms: int = 0
    status: int | None = None
    error: str | None = None
    answer: bytes | None = None
    # Of dead work: the id of its dead letter, and why.
    letter: bytes = b""
    reason: str = ""
    # False: it was never tried, and no attempt is stored.
    counts: bool = True
