"""A redemption: the one request that the server itself makes with a consumed link.

It is recorded before the first byte leaves. Where the server died in between, nobody knows whether
the request was made: the outcome is `unknown`, and it is never made again by itself.
"""

from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from mailonce.core.extraction.link_guard import REDIRECTS_MAX, judge_redirect
from mailonce.core.extraction.link_verdict import LinkDecision, LinkReason, LinkRule

# All hops together end within this; what has no outcome after it has none any more.
REDEEM_S = 30.0
REDEEM_GRACE_MS = 10_000
HOP_S = 10.0
CONNECT_S = 5.0
ANSWER_BYTES_MAX = 64 << 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
HOPS_MAX = REDIRECTS_MAX


class RedemptionState(StrEnum):
    STARTED = "started"
    # An answer came; its status says which.
    DONE = "done"
    # A redirect led where it may not.
    REFUSED = "refused"
    # Nobody could be reached, and not a byte has left: it may be asked for again.
    NOT_CALLED = "not_called"
    UNKNOWN = "unknown"


class RedemptionReason(StrEnum):
    """Why a request was not made, or ended; else the link guard's word."""

    TOO_MANY_REDIRECTS = "too_many_redirects"
    UNREACHABLE = "unreachable"
    NO_ANSWER = "no_answer"
    BLOCKED_ADDRESS = "blocked_address"
    INTERRUPTED = "interrupted"


class Redemption(Struct, frozen=True, kw_only=True):
    """What became of the request; hosts are those that the allow-list names."""

    state: RedemptionState
    started_ms: int
    ended_ms: int | None = None
    status: int | None = None
    host: str | None = None
    hops: int = 0
    reason: str | None = None

    def at(self, now_ms: int) -> RedemptionState:
        """Say how it stands at a time: one that died leaves no word."""
        end_ms = self.started_ms + int(REDEEM_S * 1000) + REDEEM_GRACE_MS
        is_lost = self.state is RedemptionState.STARTED and end_ms <= now_ms
        return RedemptionState.UNKNOWN if is_lost else self.state


class NextHop(Struct, frozen=True):
    """The answer leads on to an address that may be followed."""

    url: str
    host: str


class LastHop(Struct, frozen=True):
    """The request ends here."""

    state: RedemptionState
    reason: str | None = None


def after_answer(
    url: str, status: int, location: str | None, *, hops: int, rules: list[LinkRule]
) -> NextHop | LastHop:
    """Say what follows an answer; `hops` redirects were followed before it."""
    if status not in REDIRECTS or location is None:
        return LastHop(RedemptionState.DONE)
    if hops >= HOPS_MAX:
        return LastHop(RedemptionState.REFUSED, RedemptionReason.TOO_MANY_REDIRECTS)
    verdict = judge_redirect(url, location, rules)
    match verdict.decision:
        case LinkDecision.ALLOWED:
            return NextHop(verdict.url, verdict.host)
        case LinkDecision.REVIEW | LinkDecision.REJECTED:
            return LastHop(RedemptionState.REFUSED, LinkReason(verdict.reason))
        case _:
            assert_never(verdict.decision)
