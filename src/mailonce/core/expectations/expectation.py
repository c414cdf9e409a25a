"""An expectation: this inbox should get such an artifact by then; and the states that it has.

An expectation is opened before the mail is triggered. Its watermark is the inbox's number at that
moment: mail that comes right after counts, older mail never does.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from mailonce.core.extraction.extraction import ArtifactKind

DEADLINE_S = 120
DEADLINE_S_MAX = 86_400
RESENDS = 1
RESENDS_MAX = 20


class ExpectationState(StrEnum):
    # No mail has matched yet.
    PENDING = "pending"
    # One artifact can be consumed.
    READY = "ready"
    # Something matched, and it cannot be told which value is meant.
    AMBIGUOUS = "ambiguous"
    # A mail would match, but may not be believed, or its link may not be followed.
    QUARANTINED = "quarantined"
    # More mails matched than the budget allows, or all that could come were rejected.
    EXHAUSTED = "exhausted"
    # Nothing matched before the deadline.
    EXPIRED = "expired"
    # Its artifact was handed out; it may still be rejected.
    CONSUMED = "consumed"


_S = ExpectationState
# In each state, what may follow. What has no followers is final.
MOVES: Mapping[ExpectationState, frozenset[ExpectationState]] = {
    _S.PENDING: frozenset(
        {_S.READY, _S.AMBIGUOUS, _S.QUARANTINED, _S.EXHAUSTED, _S.EXPIRED, _S.CONSUMED}
    ),
    # Narrowed, it may lose what matched. What another expectation of its subject rejects is lost.
    _S.READY: frozenset(
        {_S.PENDING, _S.AMBIGUOUS, _S.QUARANTINED, _S.EXHAUSTED, _S.EXPIRED, _S.CONSUMED}
    ),
    _S.AMBIGUOUS: frozenset(
        {_S.PENDING, _S.READY, _S.QUARANTINED, _S.EXHAUSTED, _S.EXPIRED, _S.CONSUMED}
    ),
    _S.QUARANTINED: frozenset(
        {_S.PENDING, _S.READY, _S.AMBIGUOUS, _S.EXHAUSTED, _S.EXPIRED, _S.CONSUMED}
    ),
    # The value was rejected: the next one is offered, if there is one.
    _S.CONSUMED: frozenset(
        {_S.PENDING, _S.READY, _S.AMBIGUOUS, _S.QUARANTINED, _S.EXHAUSTED, _S.EXPIRED}
    ),
    _S.EXHAUSTED: frozenset(),
    _S.EXPIRED: frozenset(),
}
FINAL = frozenset(state for state, following in MOVES.items() if not following)


class ExpectationPolicy(Struct, frozen=True, kw_only=True):
    """What a mail must be like; whoever has the key of an agent may narrow it, never widen it."""

    kind: ArtifactKind
    # Addresses, and @domain for all addresses of one; none: whoever writes.
    senders: tuple[str, ...] = ()
    # Words that the subject has, all of them; case does not count.
    subject_contains: tuple[str, ...] = ()
    code_format: str | None = None
    # Hosts, each with the start of a path, such as example.com/verify.
    link_hosts: tuple[str, ...] = ()
    # The only link to these hosts, or the only code of this format, is the one, also where no words
    # say what it is for.
    only_candidate: bool = False
    states: tuple[str, ...] = ()
    require_dmarc: bool = False
    # Whoever opened it said which mail counts, so that none is taken for an earlier attempt's.
    any_age: bool = False


class Expectation(Struct, frozen=True, kw_only=True):
    """An expectation as it is kept. Times are unix milliseconds by the database's clock."""

    id: bytes
    workspace: str
    inbox: str
    # The inbox's address when it was opened.
    address: str
    # For whom an artifact counts; the inbox's id where nobody was named.
    subject: str
    policy: ExpectationPolicy
    watermark: int
    opened_ms: int
    deadline_ms: int
    resends: int = RESENDS
    # How many resends were granted, and when the last one was.
    granted: int = 0
    granted_ms: int | None = None
    state: ExpectationState = ExpectationState.PENDING
    reason: str = ""
    # The key that opened it.
    by: str = ""

    @property
    def mails_max(self) -> int:
        """How many distinct mails may match before it is exhausted."""
        return 1 + self.resends
