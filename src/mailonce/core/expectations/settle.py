"""Settle the state of an expectation from its mails and consumptions.

The latest matching mail wins, and supersedes what came before. A consumption freezes the choice
until it is rejected. Where it cannot be told which value is meant, nothing is offered.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from mailonce.core.expectations.consumption import FREE, ArtifactStanding, Consumption
from mailonce.core.expectations.expectation import FINAL, Expectation, ExpectationState
from mailonce.core.expectations.match_mail import MATCHES, MailOutcome, MatcherVerdict
from mailonce.core.extraction.extraction import WEAK_EVIDENCE


class StateReason(StrEnum):
    """Why an expectation is in its state; others are the words of matchers and link guard."""

    WAITING = "waiting"
    MATCHED = "matched"
    EQUALLY_GOOD = "equally_good"
    DIFFERENT_SENDERS = "different_senders"
    STALE_SUSPECT = "stale_suspect"
    TOO_MANY_MAILS = "too_many_mails"
    ALL_REJECTED = "all_rejected"
    DEADLINE = "deadline"
    CONSUMED_HERE = "consumed_here"
    CONSUMED_ELSEWHERE = "consumed_elsewhere"
    INBOX_DELETED = "inbox_deleted"


class CandidateRecord(Struct, frozen=True, kw_only=True):
    """A value of a mail as it is kept: which artifact it is, and what spoke for it; no text."""

    artifact: bytes
    score: int
    rule: str
    part: str
    start: int
    end: int
    speaks_for: tuple[str, ...] = ()
    speaks_against: tuple[str, ...] = ()
    guard: str | None = None
    guard_reason: str | None = None
    host: str | None = None


class MailMatch(Struct, frozen=True, kw_only=True):
    """A mail as an expectation judged it."""

    message: str
    seq: int
    received_ms: int
    sender: str
    outcome: MailOutcome
    reason: str
    is_stale: bool
    matchers: tuple[MatcherVerdict, ...]
    candidates: tuple[CandidateRecord, ...] = ()

    @property
    def is_match(self) -> bool:
        return self.outcome in MATCHES

    @property
    def is_weak(self) -> bool:
        """Whether its value counts only because the mail has no other."""
        return bool(self.candidates) and all(
            not WEAK_EVIDENCE.isdisjoint(one.speaks_for) for one in self.candidates
        )


class Offer(Struct, frozen=True):
    """A value that can be consumed, and the mail that it stands in."""

    match: MailMatch
    candidate: CandidateRecord


class Settlement(Struct, frozen=True, kw_only=True):
    """The state, why it is that, and what is offered or was consumed."""

    state: ExpectationState
    reason: str
    offer: Offer | None = None
    # Of a consumed one: who holds the artifact.
    holder: Consumption | None = None
    # How many distinct values matched.
    candidates: int = 0
    # A wait goes on: nothing matched yet, or only what is held back, and there is time for more.
    # Else whoever sends a bad mail first would end the wait for the good one.
    is_waiting: bool = False


def settle(
    expectation: Expectation,
    mails: Sequence[MailMatch],
    known: Mapping[bytes, ArtifactStanding],
    *,
    now_ms: int,
    is_reading: bool = False,
) -> Settlement:
    """Say how an expectation stands; `known` are the artifacts that were ever consumed.

    `is_reading`: there is mail that came, and was not read yet; nothing expires meanwhile.
    """
    matches = sorted((one for one in mails if one.is_match), key=lambda one: one.seq)
    values = {one.artifact for match in matches for one in match.candidates}
    many = len(values)
    own = _own_holder(expectation, known)
    if own is not None:
        offer = _offer_of(matches, own.artifact)
        return Settlement(
            state=ExpectationState.CONSUMED,
            reason=StateReason.CONSUMED_HERE,
            offer=offer,
            holder=own,
            candidates=many,
        )
    if expectation.state in FINAL:
        return Settlement(state=expectation.state, reason=expectation.reason, candidates=many)
    # A mail whose words say what its value is for wins over one that only has the right host.
    matches = [one for one in matches if not one.is_weak] or matches
    matched = counted(mails)
    if matched > expectation.mails_max:
        return _ended(ExpectationState.EXHAUSTED, StateReason.TOO_MANY_MAILS, many)
    trouble = _ambiguity(matches, known)
    if trouble is not None:
        return _ended(ExpectationState.AMBIGUOUS, trouble, many)
    offer = _next_offer(matches, known)
    if offer is None:
        is_over = now_ms > expectation.deadline_ms and not is_reading
        return _without_offer(expectation, mails, matched, many, is_over=is_over)
    holder = known.get(offer.candidate.artifact, FREE).holder
    if holder is not None:
        return Settlement(
            state=ExpectationState.CONSUMED,
            reason=StateReason.CONSUMED_ELSEWHERE,
            offer=offer,
            holder=holder,
            candidates=many,
        )
    return Settlement(
        state=ExpectationState.READY, reason=StateReason.MATCHED, offer=offer, candidates=many
    )


def counted(mails: Sequence[MailMatch]) -> int:
    """Count the distinct mails that spend the budget; an earlier attempt's slow mail does not."""
    return sum(one.is_match and not one.is_stale for one in mails)


def superseding(mails: Sequence[MailMatch], artifact: bytes) -> list[bytes]:
    """List the values of mails that came after the last one with this value, newest first."""
    matches = sorted((one for one in mails if one.is_match), key=lambda one: one.seq)
    last = max((one.seq for one in matches if _has(one, artifact)), default=0)
    later = [one for one in reversed(matches) if one.seq > last]
    return list(dict.fromkeys(c.artifact for one in later for c in one.candidates))


def _ended(state: ExpectationState, reason: str, many: int) -> Settlement:
    return Settlement(state=state, reason=reason, candidates=many)


def _own_holder(
    expectation: Expectation, known: Mapping[bytes, ArtifactStanding]
) -> Consumption | None:
    holders = [one.holder for one in known.values() if one.holder is not None]
    return next((one for one in holders if one.expectation == expectation.id), None)


def _offer_of(matches: Sequence[MailMatch], artifact: bytes) -> Offer | None:
    for match in reversed(matches):
        for candidate in match.candidates:
            if candidate.artifact == artifact:
                return Offer(match, candidate)
    return None


def _has(match: MailMatch, artifact: bytes) -> bool:
    return any(one.artifact == artifact for one in match.candidates)


def _ambiguity(
    matches: Sequence[MailMatch], known: Mapping[bytes, ArtifactStanding]
) -> StateReason | None:
    """Say why it cannot be told which value is meant; rejected ones are out of the question."""
    if not matches:
        return None
    latest = matches[-1]
    left = [_left(match, known) for match in matches]
    if not left[-1]:
        return None
    if latest.outcome is MailOutcome.AMBIGUOUS and len(left[-1]) > 1:
        return StateReason.EQUALLY_GOOD
    if latest.is_stale:
        return StateReason.STALE_SUSPECT
    value = left[-1][0]
    for match, values in zip(matches, left, strict=True):
        if match.sender != latest.sender and values and value not in values:
            return StateReason.DIFFERENT_SENDERS
    return None


def _left(match: MailMatch, known: Mapping[bytes, ArtifactStanding]) -> list[bytes]:
    return [
        one.artifact for one in match.candidates if not known.get(one.artifact, FREE).is_rejected
    ]


def _next_offer(
    matches: Sequence[MailMatch], known: Mapping[bytes, ArtifactStanding]
) -> Offer | None:
    """Give the best value of the latest mail that was not rejected, then of those before it."""
    for match in reversed(matches):
        if match.is_stale:
            continue
        for candidate in match.candidates:
            if not known.get(candidate.artifact, FREE).is_rejected:
                return Offer(match, candidate)
    return None


def _without_offer(
    expectation: Expectation,
    mails: Sequence[MailMatch],
    matched: int,
    many: int,
    *,
    is_over: bool,
) -> Settlement:
    if matched >= expectation.mails_max:
        return _ended(ExpectationState.EXHAUSTED, StateReason.ALL_REJECTED, many)
    held_back = [one for one in mails if one.outcome is MailOutcome.QUARANTINED]
    if held_back:
        latest = max(held_back, key=lambda one: one.seq)
        return Settlement(
            state=ExpectationState.QUARANTINED,
            reason=latest.reason,
            candidates=many,
            is_waiting=not is_over,
        )
    if is_over:
        return _ended(ExpectationState.EXPIRED, StateReason.DEADLINE, many)
    return Settlement(
        state=ExpectationState.PENDING,
        reason=StateReason.WAITING,
        candidates=many,
        is_waiting=True,
    )
