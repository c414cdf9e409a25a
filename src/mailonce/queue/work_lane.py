"""A lane in the process that holds it: concurrency, rate and breaker."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mailonce.core.work.breaker import NEVER_OPEN, Breaker, BreakerRule
from mailonce.core.work.retry_rule import WorkRule
from mailonce.core.work.states import AttemptKind
from mailonce.queue.work import LaneSettings, Work

FIRST_RETRY_REDELIVERY = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
# First attempts go first, but an endless stream of them must not keep the others waiting for ever.
TURNS = (
    *(FIRST_RETRY_REDELIVERY,) * 3,
    (AttemptKind.RETRY, AttemptKind.FIRST, AttemptKind.REDELIVERY),
    *(FIRST_RETRY_REDELIVERY,) * 3,
    (AttemptKind.REDELIVERY, AttemptKind.RETRY, AttemptKind.FIRST),
)
Kinds = tuple[AttemptKind, AttemptKind | None, AttemptKind | None]
ONLY_FIRST: Kinds = (AttemptKind.FIRST, None, None)
# An endpoint may ask for a pause, but not for days.
PAUSE_S_MAX = 3_600.0
# A busy lane leases several at once: a statement for each slot that falls free costs more.
ASK_SHARE = 4
ASK_WAIT_S = 0.02
# The reason for which a deleted lane is off.
GONE = "deleted"


@dataclass(slots=True)
class WorkLane:
    """A lane's state in one process. Times are seconds of the monotonic clock."""

    id: str
    work: Work
    settings: LaneSettings
    rule: WorkRule
    breaker: Breaker
    # Attempts whose answer is awaited; and those of them that are not of the first kind.
    running: int = 0
    running_later: int = 0
    # Attempts whose answer is there, and whose end their kind is still writing.
    unwritten: int = 0
    # More of the later kinds may be due, and is asked for when one of them ends.
    has_later: bool = False
    # A lease statement is under way; its answer says how many more are running.
    is_asking: bool = False
    # Something may be due now, by a wake-up, a timer, or a lease that was filled.
    ready: bool = True
    # When something is known to become due.
    next_s: float | None = None
    held_until_s: float = 0.0
    # Whether other processes were told that the endpoint is down.
    is_said_down: bool = False
    # Another process holds the lane until this time.
    denied_until_s: float = 0.0
    # We gave it away; others have the first go until this, and after it we keep it for a while.
    given_until_s: float = 0.0
    kept_until_s: float = 0.0
    is_leaving: bool = False
    # It waits so long for what is under way before it leaves, and starts nothing meanwhile.
    leave_until_s: float = 0.0
    owed: bool = False
    # What is due waits longer than it should.
    is_behind: bool = False
    # Attempts begun, halved with each look.
    recent: int = 0
    turn: int = 0
    tokens: float = 0.0
    tokens_s: float = 0.0
    ask_s: float | None = field(default=None)
    # The endpoint wants nothing before this time.
    paused_until_s: float = 0.0

    @property
    def name(self) -> str | None:
        """Give the name of its route or sender, for those who read logs."""
        return getattr(self.settings.subject, "name", None)

    @classmethod
    def of(
        cls, work: Work, id_: str, settings: LaneSettings, rule: BreakerRule, *, now_s: float
    ) -> "WorkLane":
        """Begin with a full bucket of tokens."""
        breaker = Breaker(rule if settings.has_breaker else NEVER_OPEN)
        lane = cls(id_, work, settings, settings.rule, breaker, tokens_s=now_s)
        lane.tokens = lane._burst
        return lane

    def set_up(self, settings: LaneSettings | None) -> None:
        """Use these settings for every attempt from now on; None: the lane was deleted."""
        if settings is None:
            settings = self.settings._replace(rule=replace(self.rule, off=self.rule.off or GONE))
        self.settings, self.rule = settings, settings.rule

    def due_in(self, seconds: float, *, now_s: float) -> None:
        if seconds <= 0:
            self.ready = True
        elif self.next_s is None or now_s + seconds < self.next_s:
            self.next_s = now_s + seconds

    def is_held(self, now_s: float) -> bool:
        return now_s < self.held_until_s

    def room(self, now_s: float) -> int:
        if self.next_s is not None and self.next_s <= now_s:
            self.ready, self.next_s = True, None
        if not self.ready or not self.is_held(now_s) or self.rule.off is not None:
            return 0
        if self.is_leaving or now_s < self.paused_until_s:
            return 0
        room = self.rule.concurrency - self.running
        allowed = self.breaker.allows(now_s)
        if allowed is not None:
            room = min(room, allowed)
        if self.rule.rate_per_s is not None:
            room = min(room, int(self._refill(now_s)))
        if room <= 0:
            return 0
        return room if allowed is not None or self._asks(room, now_s) else 0

    def takes(self, count: int, now_s: float) -> bool:
        """Say whether `count` new deliveries may start at once without overtaking others."""
        if self.ready or self.is_asking or (self.next_s is not None and self.next_s <= now_s):
            return False
        if not self.is_held(now_s) or self.rule.off is not None or self.is_leaving:
            return False
        if self.breaker.allows(now_s) is not None or now_s < self.paused_until_s:
            return False
        if self.rule.rate_per_s is not None and self._refill(now_s) < count:
            return False
        return self.running + count <= self.rule.concurrency

    def wakes_at(self, now_s: float) -> float | None:
        """Say when to look at this lane again, if nothing happens before."""
        if not self.is_held(now_s) or self.rule.off is not None or self.is_leaving:
            return None
        if not self.ready:
            return self.next_s
        if now_s < self.paused_until_s:
            return self.paused_until_s
        if self.breaker.allows(now_s) == 0:
            return self.breaker.next_look_s if self.breaker.next_look_s > now_s else None
        rate = self.rule.rate_per_s
        if rate is not None and self.tokens < 1:
            return self.tokens_s + (1 - self.tokens) / rate
        return self.ask_s if self.running < self.rule.concurrency else None

    def leave(self, now_s: float, *, within_s: float) -> None:
        """Start nothing more, so that another worker can have the lane soon."""
        self.is_leaving, self.leave_until_s = True, now_s + within_s

    def stay(self, now_s: float, *, kept_s: float) -> None:
        """Go on with a lane that cannot leave in time: a call on it lasts too long."""
        self.is_leaving = False
        self.kept_until_s = now_s + kept_s

    def left(self, now_s: float, *, given_s: float, kept_s: float) -> None:
        """Note that the lane was given back for another worker to take."""
        self.is_leaving, self.held_until_s = False, 0.0
        self.given_until_s = now_s + given_s
        self.kept_until_s = now_s + given_s + kept_s

    def pause(self, seconds: float, *, now_s: float) -> None:
        """Start nothing for so long: its endpoint said so."""
        self.paused_until_s = max(self.paused_until_s, now_s + min(seconds, PAUSE_S_MAX))

    def is_stopped(self, now_s: float) -> bool:
        """Say whether its endpoint is taken to be down, or wants a pause.

        Another worker would know nothing of it, so what is due does not make the lane leave.
        """
        return self.breaker.is_open or now_s < self.paused_until_s

    def must_stay(self, now_s: float) -> bool:
        """Say whether a pause or the rate still holds work back: nobody else knows of either."""
        is_limited = self.rule.rate_per_s is not None and self._refill(now_s) < self._burst
        return is_limited or now_s < self.paused_until_s

    def next_turn(self, most: int) -> tuple[int, Kinds]:
        """Say how many of the `most` that may start are asked for, and of which kinds first.

        Where slots are reserved, the first kind always goes first, and the others never take all.
        """
        if not self.rule.reserved:
            self.turn = (self.turn + 1) % len(TURNS)
            return most, TURNS[self.turn]
        left = self.rule.concurrency - min(self.rule.reserved, self.rule.concurrency - 1)
        left -= self.running_later
        if left <= 0:
            self.has_later = True
            return most, ONLY_FIRST
        return min(most, left), FIRST_RETRY_REDELIVERY

    def begin_lease(self) -> None:
        """Note that a lease is under way; a wake-up meanwhile makes it ready again."""
        self.ready = False
        self.is_asking = True
        self.ask_s = None

    def answered(self, kinds: Sequence[AttemptKind], *, most: int) -> None:
        """Note what a lease of at most `most` gave; where it gave all of them, more may be due."""
        self.is_asking = False
        later = sum(kind != AttemptKind.FIRST for kind in kinds)
        is_full = len(kinds) == most
        if self.rule.reserved and later and is_full:
            # None of the first kind is left, or it would have been given.
            self.has_later = True
        else:
            self.ready = self.ready or is_full
        self.running_later += later
        self.started(len(kinds))

    def ended(self, kind: AttemptKind) -> None:
        """Note that an attempt is over."""
        self.running -= 1
        if kind == AttemptKind.FIRST:
            return
        self.running_later -= 1
        if self.has_later:
            self.has_later, self.ready = False, True

    def started(self, attempts: int) -> None:
        if attempts:
            self.running += attempts
            self.recent += attempts
            self.tokens -= attempts
            self.breaker.started()

    def freed(self, attempts: int) -> None:
        """Note attempts that were counted as begun and never will be."""
        self.running -= attempts
        self.recent -= min(attempts, self.recent)
        self.tokens += attempts

    def _asks(self, room: int, now_s: float) -> bool:
        if not self.running or room * ASK_SHARE >= self.rule.concurrency:
            return True
        if self.ask_s is None:
            self.ask_s = now_s + ASK_WAIT_S
        return now_s >= self.ask_s

    def _refill(self, now_s: float) -> float:
        rate = self.rule.rate_per_s or 0.0
        self.tokens = min(self._burst, self.tokens + (now_s - self.tokens_s) * rate)
        self.tokens_s = now_s
        return self.tokens

    @property
    def _burst(self) -> float:
        return max(1.0, self.rule.rate_per_s or 0.0)
