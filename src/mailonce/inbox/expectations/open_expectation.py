"""Open an expectation: from now on mail of its inbox counts for it."""

import asyncio
from typing import NamedTuple

from mailonce.core.access import Caller, Scope
from mailonce.core.expectations.expectation import Expectation, ExpectationPolicy
from mailonce.core.expectations.expectation_request import (
    ExpectationRequest,
    check_agent_hosts,
    check_agent_watermark,
    fingerprint_of_request,
    policy_of,
    request_key,
)
from mailonce.errors import ClashError, MissingError, RefusedError
from mailonce.inbox.expectations.expectation_parts import ExpectationParts
from mailonce.inbox.expectations.match_messages import match_expectation
from mailonce.store.configuration import locks
from mailonce.store.dialects.contract import Tx
from mailonce.store.expectations import expectations

# How long mail that came before an expectation may take to be read.
READING_S_MAX = 10.0
READING_POLL_S = 0.02


class OpenedExpectation(NamedTuple):
    """An expectation; `is_replay`: an earlier request with the same key opened it."""

    expectation: Expectation
    is_replay: bool


async def open_expectation(
    parts: ExpectationParts,
    caller: Caller,
    inbox: str,
    request: ExpectationRequest,
    *,
    key: str | None = None,
    place: str | None = None,
) -> OpenedExpectation:
    """Open an expectation of an inbox; with a `key` of the caller a repeated one gets the same.

    Invariant: the watermark is the inbox's number, read under the lock by which mail is numbered.
    What is accepted after the commit has a higher one. Mail that counts although it is there
    already (`after`) is judged before the answer; after a crash in between, the repeated request
    does it. `place` is what the caller named for the inbox, where that is not its id. Raises:
    ParseError, AccessError, MissingError, RefusedError, and ClashError where the key stands for
    another request.
    """
    policy = check_request(parts, caller, request)
    kept_key = None if key is None else request_key(key, caller.key)
    fingerprint = None if key is None else fingerprint_of_request(request, place or inbox)
    now_ms = await parts.now_ms()
    id_ = parts.clock.new_id()

    def work(tx: Tx) -> OpenedExpectation:
        if kept_key is not None:
            locks.take(tx, locks.number_of("expectation request", caller.workspace, kept_key))
            known = expectations.of_request_key(tx, caller.workspace, kept_key)
            if known is not None and known.fingerprint != fingerprint:
                raise ClashError(
                    "this Idempotency-Key stands for another request; use a new key for it"
                )
            if known is not None:
                return OpenedExpectation(known.expectation, is_replay=True)
        now = expectations.lock_inbox(tx, caller.workspace, inbox)
        if now is None or (now.expires_ms is not None and now.expires_ms <= now_ms):
            raise MissingError("this inbox was deleted, or has expired; make another")
        most = parts.rules.open_max
        if expectations.count_open(tx, inbox, most=most) >= most:
            raise RefusedError(f"{most} expectations of this inbox are open; make another inbox")
        opened = Expectation(
            id=id_,
            workspace=caller.workspace,
            inbox=inbox,
            address=now.address,
            subject=inbox if request.subject is None else request.subject,
            policy=policy,
            watermark=now.seq if request.after is None else min(request.after, now.seq),
            opened_ms=now_ms,
            deadline_ms=now_ms + int(request.deadline_s * 1000),
            resends=request.resends,
            by=caller.key,
        )
        expectations.put(tx, opened, request_key=kept_key, fingerprint=fingerprint)
        return OpenedExpectation(opened, is_replay=False)

    opened = await parts.database.write(work)
    if request.after is not None:
        await _judge_what_is_there(parts, opened.expectation)
    if not opened.is_replay:
        parts.metrics.opened(opened.expectation.policy.kind)
    return opened


def check_request(
    parts: ExpectationParts, caller: Caller, request: ExpectationRequest
) -> ExpectationPolicy:
    """See that a caller may ask for this, and give the policy that follows.

    Raises: ParseError, AccessError.
    """
    policy = policy_of(request)
    if caller.scope is Scope.AGENT:
        check_agent_hosts(policy, parts.rules.link_hosts)
        check_agent_watermark(request)
    return policy


async def _judge_what_is_there(parts: ExpectationParts, expectation: Expectation) -> None:
    """Judge the mail that came before, as soon as it was read.

    Whoever reads a mail has looked for expectations before this one was opened, and will not again.
    """
    for _ in range(int(READING_S_MAX / READING_POLL_S)):
        is_reading = await parts.database.read(
            lambda tx: expectations.has_unread_mail(tx, expectation)
        )
        await match_expectation(parts, expectation)
        if not is_reading:
            return
        await asyncio.sleep(READING_POLL_S)
