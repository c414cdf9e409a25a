"""Match messages with the expectations of their inbox, and settle these.

The mail's own work does this after its message is kept, and ends only when it is done: a crash in
between leaves the work, which then judges what has no verdict yet. A verdict is kept once, so that
judging a mail twice, here or in another process, changes nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from mailonce.core.expectations.expectation import FINAL, Expectation
from mailonce.core.expectations.match_mail import UNREADABLE, MailVerdict, match_mail
from mailonce.core.expectations.settle import CandidateRecord, MailMatch, Settlement
from mailonce.core.extraction.extraction import ArtifactCandidate
from mailonce.inbox.expectations.expectation_parts import ExpectationParts
from mailonce.store.dialects.contract import Priority, Tx
from mailonce.store.expectations import artifacts, expectations, matches, standing
from mailonce.store.expectations.artifacts import NewArtifact
from mailonce.store.expectations.matches import MessageToMatch
from mailonce.telemetry import MATCH_FAILED, log

MESSAGES_AT_ONCE = 20
# Larger ones are judged beside the event loop.
INLINE_BYTES_MAX = 8 << 10
# Each round somebody has narrowed the expectation meanwhile.
ROUNDS_MAX = 100


class _JudgedMessage(NamedTuple):
    message: MessageToMatch
    verdict: MailVerdict
    # One for each candidate.
    values: list[NewArtifact]


async def match_messages(parts: ExpectationParts, inbox: str) -> None:
    """Judge what is new in an inbox for each of its expectations.

    Invariant: a verdict, its artifacts and the state that follows are kept in one transaction.
    Raises: UnavailableError; then it is to be done again.
    """
    known = await parts.database.read(lambda tx: expectations.open_of_inbox(tx, inbox))
    for expectation in known:
        await match_expectation(parts, expectation)


async def match_expectation(parts: ExpectationParts, expectation: Expectation) -> None:
    """Judge what is new in its inbox for one expectation."""
    for _ in range(ROUNDS_MAX):
        messages = await parts.database.read(
            lambda tx, known=expectation: matches.unmatched_messages(  # type: ignore[misc]
                tx, known.id, known.inbox, watermark=known.watermark, most=MESSAGES_AT_ONCE
            )
        )
        if not messages:
            return
        judged = await _judge(parts, expectation, messages)
        following = await _keep(parts, expectation, judged)
        if following is None:
            return
        expectation = following


async def _judge(
    parts: ExpectationParts, expectation: Expectation, messages: Sequence[MessageToMatch]
) -> list[_JudgedMessage]:
    judged: list[_JudgedMessage] = []
    for message in messages:
        if len(message.document) <= INLINE_BYTES_MAX:
            verdict = _verdict(expectation, message)
        else:
            verdict = await asyncio.to_thread(_verdict, expectation, message)
        values = [_artifact(parts, expectation, one) for one in verdict.candidates]
        judged.append(_JudgedMessage(message, verdict, values))
    return judged


def _verdict(expectation: Expectation, message: MessageToMatch) -> MailVerdict:
    document = orjson.loads(message.document)
    try:
        return match_mail(expectation, document, received_ms=message.received_ms)
    except Exception as error:  # noqa: BLE001 - a mistake of ours must not hold up the others
        name = type(error).__name__
        log.error(MATCH_FAILED, message=message.id, error=name, exc_info=error)
        return UNREADABLE


def _artifact(
    parts: ExpectationParts, expectation: Expectation, candidate: ArtifactCandidate
) -> NewArtifact:
    id_ = parts.clock.new_id()
    kind = expectation.policy.kind
    return NewArtifact(
        id=id_,
        workspace=expectation.workspace,
        subject=expectation.subject,
        kind=kind,
        digests=parts.keys.digests(kind, candidate.value),
        sealed=parts.seal(candidate.value, expectation.workspace, id_),
    )


async def _keep(
    parts: ExpectationParts, expectation: Expectation, judged: Sequence[_JudgedMessage]
) -> Expectation | None:
    """Keep verdicts, and settle; give the expectation as it is now, None where it has ended."""
    now_ms = await parts.now_ms()

    def work(tx: Tx) -> tuple[Expectation | None, Settlement | None]:
        expectations.lock(tx, expectation.id)
        known = expectations.get(tx, expectation.workspace, expectation.id)
        if known is None or known.state in FINAL:
            return None, None
        if known.policy != expectation.policy or known.deadline_ms != expectation.deadline_ms:
            # It was narrowed since; the mails are judged anew.
            return known, None
        values = [value for one in judged for value in one.values]
        # In one order, so that none who does the same waits for us in a circle.
        ids = {
            value.id: artifacts.ensure(tx, value, now_ms=now_ms)
            for value in sorted(values, key=lambda value: value.digests)
        }
        matches.put(tx, known.id, [_match(one, ids) for one in judged])
        return known, settle_locked(tx, known, now_ms=now_ms)

    known, settled = await parts.database.write(work, priority=Priority.WORKER)
    if settled is not None and settled.state != expectation.state:
        parts.tell(expectation.id, settled.state)
    return known


def settle_locked(tx: Tx, known: Expectation, *, now_ms: int) -> Settlement:
    """Settle an expectation whose row is locked, and keep its state where that changed."""
    standing_ = standing.load(tx, known.workspace, known.id)
    assert standing_ is not None, "its row is locked"
    settled = standing_.settle(now_ms=now_ms)
    if (settled.state, settled.reason) != (known.state, known.reason):
        expectations.settle(tx, known.id, settled.state, settled.reason)
    return settled


def _match(judged: _JudgedMessage, ids: dict[bytes, bytes]) -> MailMatch:
    message, verdict = judged.message, judged.verdict
    pairs = zip(verdict.candidates, judged.values, strict=True)
    return MailMatch(
        message=message.id,
        seq=message.seq,
        received_ms=message.received_ms,
        sender=verdict.sender,
        outcome=verdict.outcome,
        reason=verdict.reason,
        is_stale=verdict.is_stale,
        matchers=verdict.matchers,
        candidates=tuple([_record(candidate, ids[value.id]) for candidate, value in pairs]),
    )


def _record(candidate: ArtifactCandidate, artifact: bytes) -> CandidateRecord:
    guard = candidate.guard
    return CandidateRecord(
        artifact=artifact,
        score=candidate.score,
        rule=str(candidate.rule),
        part=str(candidate.part),
        start=candidate.start,
        end=candidate.end,
        speaks_for=tuple([str(one) for one in candidate.speaks_for]),
        speaks_against=tuple([str(one) for one in candidate.speaks_against]),
        guard=None if guard is None else str(guard.decision),
        guard_reason=None if guard is None else str(guard.reason),
        host=None if guard is None else guard.host,
    )
