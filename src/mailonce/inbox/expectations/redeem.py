"""Redeem a consumed link: the server makes the one request, so that no agent needs a browser.

That it begins is committed before the first byte leaves, and only once. A crash leaves `started`,
which is `unknown` when its time is over; nobody makes the request again by itself. Whoever asked
and goes away, as agents' tools are cancelled, leaves it to its end: the next hears the outcome.
"""

import asyncio

from mailonce.core.access import Caller
from mailonce.core.expectations.consumption import Consumption, ConsumptionState, consume_key_of
from mailonce.core.expectations.link_host import read_link_host
from mailonce.core.expectations.redemption import (
    ANSWER_BYTES_MAX,
    CONNECT_S,
    HOP_S,
    HOPS_MAX,
    REDEEM_GRACE_MS,
    REDEEM_S,
    LastHop,
    NextHop,
    Redemption,
    RedemptionReason,
    RedemptionState,
    after_answer,
)
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.core.extraction.link_guard import judge_link
from mailonce.core.extraction.link_verdict import LinkDecision, LinkRule
from mailonce.core.moment import moment
from mailonce.errors import ClashError, RefusedError, UnavailableError
from mailonce.inbox.expectations.consume import (
    LeaseReleasedError,
    NotConsumedError,
    check_held,
    locked,
)
from mailonce.inbox.expectations.expectation_parts import ExpectationParts
from mailonce.net.http import NotCalledError
from mailonce.store.dialects.contract import Tx
from mailonce.store.expectations import artifacts, consumptions

# No cookies, no referrer, no token of ours.
HEADERS = {"accept": "text/html,application/json;q=0.9,*/*;q=0.1"}
# Who was paused for longer since the record makes no request: others may have acted meanwhile.
START_S = 5.0
REPEATABLE = frozenset({RedemptionState.NOT_CALLED})


class RedeemingError(ClashError):
    """The request is being made."""

    code = "redeeming"

    def __init__(self, redemption: Redemption) -> None:
        """Say when its outcome is known at the latest."""
        until_ms = redemption.started_ms + int(REDEEM_S * 1000) + REDEEM_GRACE_MS
        self.members = {"retry_at": moment(until_ms)}
        super().__init__("the request is being made; ask again at `retry_at`")


class _Begun:
    """A redemption that this process has begun, or the outcome of an earlier one."""

    def __init__(
        self, consumption: Consumption, redemption: Redemption, url: str, rules: list[LinkRule]
    ) -> None:
        self.consumption = consumption
        self.redemption = redemption
        self.url = url
        self.rules = rules


async def redeem(
    parts: ExpectationParts, caller: Caller, id_: bytes, *, consume_key: str
) -> Redemption:
    """Make the one request with a consumed link, or say what became of it.

    Raises: LeaseReleasedError where the lease has ended, RedeemingError, RefusedError where it is
    no link, NotConsumedError, ParseError.
    """
    key = consume_key_of(consume_key)
    now_ms = await parts.now_ms()
    began_s = parts.clock.monotonic()

    def begin(tx: Tx) -> _Begun | Redemption:
        known = locked(tx, caller.workspace, id_)
        own = consumptions.of_key(tx, id_, by=caller.key, consume_key=key)
        if own is None:
            raise NotConsumedError
        check_held(own)
        if known.expectation.policy.kind is not ArtifactKind.LINK:
            raise RefusedError("only a link can be redeemed; enter the value yourself")
        before = own.redemption
        if before is not None and before.at(now_ms) not in REPEATABLE:
            return _earlier(tx, own, before, now_ms=now_ms)
        if own.confirmed_ms is not None:
            raise ClashError(
                f"it was confirmed at {moment(own.confirmed_ms)}, so that its link is not opened; "
                "expect a new mail"
            )
        if own.at(now_ms) is not ConsumptionState.LEASED:
            raise LeaseReleasedError("the lease has ended; say what became of the value")
        rules = [read_link_host(one) for one in known.expectation.policy.link_hosts]
        url = parts.open_value(artifacts.get(tx, own.artifact))
        begun = Redemption(state=RedemptionState.STARTED, started_ms=now_ms)
        kept = consumptions.redeem(tx, own, begun)
        assert kept, "the expectation is locked, so that nobody else redeems"
        act = parts.clock.new_id()
        consumptions.note(tx, own.id, id_=act, act="redeem", by=caller.key, at_ms=now_ms)
        again = consumptions.get(tx, own.workspace, own.id)
        assert again is not None, "it was changed in this transaction"
        return _Begun(again, begun, url, rules)

    begun = await parts.database.write(begin)
    if isinstance(begun, Redemption):
        return begun
    work = asyncio.create_task(_finish(parts, begun, began_s=began_s))
    parts.redeeming.add(work)
    work.add_done_callback(parts.redeeming.discard)
    return await asyncio.shield(work)


async def _finish(parts: ExpectationParts, begun: _Begun, *, began_s: float) -> Redemption:
    """Make the request that was begun, and keep its outcome."""
    if parts.clock.monotonic() - began_s > START_S:
        state, reason = RedemptionState.NOT_CALLED, RedemptionReason.INTERRUPTED
        outcome = _outcome(begun, state, None, None, 0, reason)
    else:
        outcome = await _request(parts, begun)
    parts.metrics.redeemed(outcome.state)
    await parts.database.write(lambda tx: consumptions.redeem(tx, begun.consumption, outcome))
    return outcome


def _earlier(tx: Tx, own: Consumption, before: Redemption, *, now_ms: int) -> Redemption:
    """Give the outcome of an earlier redemption; one that left no word is unknown."""
    state = before.at(now_ms)
    if state is RedemptionState.STARTED:
        raise RedeemingError(before)
    if before.state is RedemptionState.STARTED:
        lost = Redemption(
            state=state,
            started_ms=before.started_ms,
            ended_ms=now_ms,
            reason=RedemptionReason.INTERRUPTED,
        )
        consumptions.redeem(tx, own, lost)
        return lost
    return before


async def _request(parts: ExpectationParts, begun: _Begun) -> Redemption:
    """Follow the link and its redirects, each judged before it is followed."""
    verdict = judge_link(begun.url, begun.rules)
    started_ms = begun.redemption.started_ms
    if verdict.decision is not LinkDecision.ALLOWED:
        return Redemption(
            state=RedemptionState.REFUSED, started_ms=started_ms, reason=verdict.reason
        )
    place = NextHop(verdict.url, verdict.host)
    status: int | None = None
    host: str | None = None
    state, reason = RedemptionState.UNKNOWN, RedemptionReason.NO_ANSWER
    hops = 0
    try:
        async with asyncio.timeout(REDEEM_S):
            for hops in range(HOPS_MAX + 1):
                answer = await parts.client.call(
                    "GET",
                    place.url.partition("#")[0],
                    b"",
                    HEADERS,
                    bytes_max=ANSWER_BYTES_MAX,
                    connect_timeout_s=CONNECT_S,
                    timeout_s=HOP_S,
                )
                status, host = answer.status, place.host
                location = answer.headers.get("location")
                following = after_answer(place.url, status, location, hops=hops, rules=begun.rules)
                if isinstance(following, LastHop):
                    return _outcome(begun, following.state, status, host, hops, following.reason)
                place = following
    except NotCalledError:
        state, reason = RedemptionState.NOT_CALLED, RedemptionReason.UNREACHABLE
    except RefusedError:
        state, reason = RedemptionState.REFUSED, RedemptionReason.BLOCKED_ADDRESS
    except (UnavailableError, TimeoutError):
        state, reason = RedemptionState.UNKNOWN, RedemptionReason.NO_ANSWER
    if status is not None:
        # The link itself was answered; only where it led on was not.
        state = RedemptionState.DONE
    return _outcome(begun, state, status, host, hops, reason)


def _outcome(
    begun: _Begun,
    state: RedemptionState,
    status: int | None,
    host: str | None,
    hops: int,
    reason: str | None,
) -> Redemption:
    return Redemption(
        state=state,
        started_ms=begun.redemption.started_ms,
        status=status,
        host=host,
        hops=hops,
        reason=reason,
    )
