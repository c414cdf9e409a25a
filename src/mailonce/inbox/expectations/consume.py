"""Consume an artifact once: hand out its value, and keep to whom, in one transaction.

A crash before the commit has handed out nothing. One after it has lost the answer, and the same
consume key gets the same value again.
"""

from typing import NamedTuple

from mailonce.core.access import Caller
from mailonce.core.expectations.consumption import (
    HELD,
    Consumption,
    ConsumptionAct,
    ConsumptionState,
    consume_key_of,
    move,
)
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.settle import Offer, Settlement, StateReason, superseding
from mailonce.core.moment import moment
from mailonce.errors import AccessError, ClashError, MissingError
from mailonce.inbox.expectations.expectation_parts import ExpectationParts, missing_expectation
from mailonce.inbox.expectations.match_messages import settle_locked
from mailonce.store.dialects.contract import Tx
from mailonce.store.expectations import artifacts, consumptions, expectations, standing
from mailonce.store.expectations.standing import ExpectationStanding

# A lease ends once.
RACES_MAX = 3


class ConsumedError(ClashError):
    """Somebody else has the artifact."""

    code = "consumed"

    def __init__(self, holder: Consumption | None, *, now_ms: int) -> None:
        """Say when it was consumed, and what became of it; of a lease, until when it lasts."""
        if holder is None:
            super().__init__("another consume key had it until now; ask again")
            return
        consumed_at = moment(holder.leased_ms)
        taken = f"another consume key consumed it at {consumed_at}"
        self.members = {"consumed_at": consumed_at}
        if holder.at(now_ms) is ConsumptionState.LEASED:
            self.members = {**self.members, "retry_at": moment(holder.lease_ms)}
            super().__init__(f"{taken}; see at `retry_at` what became of it")
        elif holder.confirmed_ms is not None:
            at = moment(holder.confirmed_ms)
            self.members = {**self.members, "confirmed_at": at}
            super().__init__(f"{taken} and confirmed it at {at}; expect a new mail")
        else:
            super().__init__(f"{taken} and did not confirm it; an operator may release it")


class NotReadyError(ClashError):
    """There is nothing to consume."""

    code = "not_ready"

    def __init__(self, settled: Settlement) -> None:
        """Say how the expectation stands."""
        self.members = {"state": str(settled.state), "reason": settled.reason}
        super().__init__(f"the expectation is {settled.state}; wait until it is ready")


class NotConsumedError(MissingError):
    """A consume key under which nothing was consumed."""

    code = "not_consumed"

    def __init__(self) -> None:
        super().__init__("nothing was consumed with this consume key; consume it first")


class RejectedValueError(ClashError):
    """What this consume key consumed was rejected."""

    code = "rejected_value"


class LeaseReleasedError(ClashError):
    """An operator took the artifact back."""

    code = "lease_lost"


class UsedUpError(AccessError):
    """A child key has been used as often as it may."""

    code = "used_up"


class ConsumedValue(NamedTuple):
    """A value that was handed out; the offer is None where its mail was deleted since."""

    value: str
    consumption: Consumption
    offer: Offer | None
    known: ExpectationStanding


class ConfirmedConsumption(NamedTuple):
    """What became of a consumption, how the expectation stands then, and what came later."""

    consumption: Consumption
    settled: Settlement
    known: ExpectationStanding
    superseding: list[bytes]


async def consume(
    parts: ExpectationParts, caller: Caller, id_: bytes, *, consume_key: str
) -> ConsumedValue:
    """Hand out the value of an expectation that is ready; again to whoever had it before.

    Raises: ConsumedError, NotReadyError, RejectedValueError, LeaseReleasedError, UsedUpError,
    GoneError, MissingError, ParseError.
    """
    key = consume_key_of(consume_key)
    now_ms = await parts.now_ms()

    def work(tx: Tx) -> ConsumedValue:
        known = locked(tx, caller.workspace, id_)
        own = consumptions.of_key(tx, id_, by=caller.key, consume_key=key)
        if own is not None:
            check_held(own)
            value = parts.open_value(artifacts.get(tx, own.artifact))
            offer = known.settle(now_ms=now_ms).offer
            return ConsumedValue(value, own, offer, known)
        settled = known.settle(now_ms=now_ms)
        if settled.state is ExpectationState.CONSUMED:
            raise ConsumedError(settled.holder, now_ms=now_ms)
        if settled.state is not ExpectationState.READY or settled.offer is None:
            raise NotReadyError(settled)
        artifact = settled.offer.candidate.artifact
        _count_use(tx, caller)
        taken = Consumption(
            id=parts.clock.new_id(),
            workspace=caller.workspace,
            expectation=id_,
            artifact=artifact,
            by=caller.key,
            consume_key=key,
            token=artifacts.next_token(tx, artifact),
            state=ConsumptionState.LEASED,
            leased_ms=now_ms,
            lease_ms=now_ms + int(parts.rules.lease_s * 1000),
        )
        value = parts.open_value(artifacts.get(tx, artifact))
        if not consumptions.put(tx, taken):
            # Another expectation of the same subject was quicker.
            again = standing.load(tx, caller.workspace, id_)
            holder = None if again is None else again.settle(now_ms=now_ms).holder
            raise ConsumedError(holder, now_ms=now_ms)
        act = parts.clock.new_id()
        consumptions.note(tx, taken.id, id_=act, act="consume", by=caller.key, at_ms=now_ms)
        expectations.settle(tx, id_, ExpectationState.CONSUMED, StateReason.CONSUMED_HERE)
        return ConsumedValue(value, taken, settled.offer, known)

    consumed = await parts.database.write(work)
    if consumed.consumption.leased_ms == now_ms:
        parts.tell(id_, ExpectationState.CONSUMED)
    return consumed


async def confirm(
    parts: ExpectationParts, caller: Caller, id_: bytes, *, consume_key: str, accepted: bool
) -> ConfirmedConsumption:
    """Keep what became of a value; where it was rejected, the next one is offered.

    Said twice, it is kept once. Raises: ClashError where the opposite was said before,
    LeaseReleasedError, NotConsumedError, ParseError.
    """
    key = consume_key_of(consume_key)
    act = ConsumptionAct.ACCEPT if accepted else ConsumptionAct.REJECT
    now_ms = await parts.now_ms()

    def work(tx: Tx) -> ConfirmedConsumption:
        locked(tx, caller.workspace, id_)
        own = consumptions.of_key(tx, id_, by=caller.key, consume_key=key)
        if own is None:
            raise NotConsumedError
        return _move(parts, tx, own, act, by=caller.key, now_ms=now_ms)

    confirmed = await parts.database.write(work)
    parts.tell(id_, confirmed.settled.state)
    return confirmed


async def release(parts: ExpectationParts, caller: Caller, consumption: bytes) -> Consumption:
    """Let others have an artifact whose consumption nobody confirmed; an operator decides that.

    Raises: MissingError, ClashError where it was confirmed.
    """
    now_ms = await parts.now_ms()

    def work(tx: Tx) -> ConfirmedConsumption:
        known = consumptions.get(tx, caller.workspace, consumption)
        if known is None:
            raise MissingError("there is no such consumption; see GET /v1/consumptions")
        locked(tx, caller.workspace, known.expectation)
        again = consumptions.get(tx, caller.workspace, consumption)
        assert again is not None, "a consumption is not deleted while its expectation is there"
        return _move(parts, tx, again, ConsumptionAct.RELEASE, by=caller.key, now_ms=now_ms)

    released = await parts.database.write(work)
    parts.tell(released.consumption.expectation, released.settled.state)
    return released.consumption


def _move(
    parts: ExpectationParts,
    tx: Tx,
    own: Consumption,
    act: ConsumptionAct,
    *,
    by: str,
    now_ms: int,
) -> ConfirmedConsumption:
    for _ in range(RACES_MAX):
        following = move(own.at(now_ms), act)
        if following is None:
            _check_said_before(own, act)
            break
        if consumptions.end(tx, own, following, now_ms=now_ms):
            id_ = parts.clock.new_id()
            consumptions.note(tx, own.id, id_=id_, act=str(act), by=by, at_ms=now_ms)
            break
        # Its lease ended between our look and our word, and somebody has marked that.
        again = consumptions.get(tx, own.workspace, own.id)
        assert again is not None, "a consumption is not deleted while its expectation is there"
        own = again
    known = standing.load(tx, own.workspace, own.expectation)
    assert known is not None, "its row is locked"
    settled = settle_locked(tx, known.expectation, now_ms=now_ms)
    ended = consumptions.get(tx, own.workspace, own.id)
    assert ended is not None, "it was moved in this transaction"
    return ConfirmedConsumption(ended, settled, known, superseding(known.mails, own.artifact))


def _check_said_before(own: Consumption, act: ConsumptionAct) -> None:
    """See that a consumption ended as it is said to, which is then said twice."""
    if own.state is _ENDS[act]:
        return
    if own.state is ConsumptionState.RELEASED:
        raise LeaseReleasedError("an operator has released it; do not use the value")
    raise ClashError(f"it was {own.state} at {moment(own.ended_ms)}, and stays that")


_ENDS = {
    ConsumptionAct.ACCEPT: ConsumptionState.ACCEPTED,
    ConsumptionAct.REJECT: ConsumptionState.REJECTED,
    ConsumptionAct.RELEASE: ConsumptionState.RELEASED,
}


def locked(tx: Tx, workspace: str, id_: bytes) -> ExpectationStanding:
    """Lock an expectation, and read all that its state follows from.

    Raises: MissingError.
    """
    expectations.lock(tx, id_)
    known = standing.load(tx, workspace, id_)
    if known is None:
        raise missing_expectation()
    return known


def check_held(own: Consumption) -> None:
    """See that a consumption still holds its artifact.

    Raises: RejectedValueError, LeaseReleasedError.
    """
    if own.state in HELD:
        return
    if own.state is ConsumptionState.RELEASED:
        raise LeaseReleasedError("an operator has released it; use a new consume key")
    raise RejectedValueError("this value was rejected; use a new consume key for the next one")


def _count_use(tx: Tx, caller: Caller) -> None:
    child = caller.child
    if child is None:
        return
    uses = consumptions.count_use(
        tx, child.id, workspace=caller.workspace, expires_ms=child.expires_ms
    )
    if uses > child.uses:
        raise UsedUpError(f"this key may consume {child.uses} values, and has; make another")
