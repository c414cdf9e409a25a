"""Change an expectation while it waits: narrow it, or ask whether a resend may be triggered."""

from mailonce.core.access import Caller
from mailonce.core.expectations.expectation import FINAL, Expectation, ExpectationState
from mailonce.core.expectations.narrow import NarrowRequest, narrow
from mailonce.core.expectations.resend import ResendDecision, decide_resend
from mailonce.core.expectations.settle import counted
from mailonce.errors import ClashError
from mailonce.inbox.expectations.consume import locked
from mailonce.inbox.expectations.expectation_parts import ExpectationParts
from mailonce.inbox.expectations.match_messages import match_expectation, settle_locked
from mailonce.store.dialects.contract import Tx
from mailonce.store.expectations import expectations, matches


async def narrow_expectation(
    parts: ExpectationParts, caller: Caller, id_: bytes, request: NarrowRequest
) -> None:
    """Narrow an expectation, and judge the mails anew that it has judged.

    Raises: AccessError where it would be wider, ClashError where something is consumed or it has
    ended, MissingError, ParseError.
    """
    now_ms = await parts.now_ms()

    def work(tx: Tx) -> Expectation:
        known = locked(tx, caller.workspace, id_)
        state = known.settle(now_ms=now_ms).state
        if state in FINAL or state is ExpectationState.CONSUMED:
            raise ClashError(f"the expectation is {state}, and is not narrowed any more")
        narrower = narrow(known.expectation, request)
        expectations.narrow(tx, narrower)
        matches.forget(tx, id_)
        settle_locked(tx, narrower, now_ms=now_ms)
        return narrower

    narrower = await parts.database.write(work)
    await match_expectation(parts, narrower)


async def ask_resend(
    parts: ExpectationParts, caller: Caller, id_: bytes, *, number: int | None = None
) -> ResendDecision:
    """Grant or refuse a resend from the budget; a grant is written down before it is answered.

    With a `number`, counted from 1, a repeated question gets the same answer.
    Raises: MissingError.
    """
    now_ms = await parts.now_ms()

    def work(tx: Tx) -> ResendDecision:
        known = locked(tx, caller.workspace, id_)
        decision = decide_resend(
            known.expectation,
            known.settle(now_ms=now_ms).state,
            matched=counted(known.mails),
            now_ms=now_ms,
            number=number,
            wait_s=parts.rules.resend_wait_s,
        )
        if decision.is_new:
            expectations.grant(tx, id_, granted=known.expectation.granted + 1, now_ms=now_ms)
        return decision

    decision = await parts.database.write(work)
    parts.metrics.resend(decision.reason)
    return decision
