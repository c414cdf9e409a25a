"""A consumption: an artifact that was handed out, under a lease, to whoever had the consume key.

The same consume key of the same API key gets the same value again: a lost answer is no lost code.
A lease that ends without a word leaves the artifact unconfirmed. Nobody knows then whether it was
used, so that it is handed to nobody else by itself; an operator may release it.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from mailonce.core.argument_error import ArgumentError
from mailonce.core.expectations.redemption import Redemption

LEASE_S = 120
CONSUME_KEY = re.compile(r"[!-~]{1,200}")


class ConsumptionState(StrEnum):
    LEASED = "leased"
    # The lease ended, and nobody said whether the value was used.
    UNCONFIRMED = "unconfirmed"
    ACCEPTED = "accepted"
    # It was of no use: the next value is offered.
    REJECTED = "rejected"
    # An operator says that it was not used.
    RELEASED = "released"


class ConsumptionAct(StrEnum):
    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    # The lease ends.
    LAPSE = "lapse"


_S, _A = ConsumptionState, ConsumptionAct
# In each state, what may happen and what follows.
MOVES: Mapping[ConsumptionState, Mapping[ConsumptionAct, ConsumptionState]] = {
    _S.LEASED: {
        _A.ACCEPT: _S.ACCEPTED,
        _A.REJECT: _S.REJECTED,
        _A.RELEASE: _S.RELEASED,
        _A.LAPSE: _S.UNCONFIRMED,
    },
    _S.UNCONFIRMED: {
        _A.ACCEPT: _S.ACCEPTED,
        _A.REJECT: _S.REJECTED,
        _A.RELEASE: _S.RELEASED,
    },
    _S.ACCEPTED: {},
    _S.REJECTED: {},
    _S.RELEASED: {},
}
# Nobody else gets the artifact.
HELD = frozenset({_S.LEASED, _S.UNCONFIRMED, _S.ACCEPTED})


class Consumption(Struct, frozen=True, kw_only=True):
    """A consumption as it is kept; times are by the database's clock."""

    id: bytes
    workspace: str
    expectation: bytes
    artifact: bytes
    # The API key that consumed it.
    by: str
    consume_key: bytes
    # Raised with each consumption of an artifact, so that a late worker is known.
    token: int
    state: ConsumptionState
    leased_ms: int
    lease_ms: int
    ended_ms: int | None = None
    redemption: Redemption | None = None

    def at(self, now_ms: int) -> ConsumptionState:
        """Say how it stands at a time: a lease ends by itself."""
        is_over = self.state is ConsumptionState.LEASED and self.lease_ms <= now_ms
        return ConsumptionState.UNCONFIRMED if is_over else self.state

    @property
    def confirmed_ms(self) -> int | None:
        """Say when its value was confirmed; None where nobody has."""
        return self.ended_ms if self.state is ConsumptionState.ACCEPTED else None

    def is_of(self, by: str, consume_key: bytes) -> bool:
        return (self.by, self.consume_key) == (by, consume_key)


def move(state: ConsumptionState, act: ConsumptionAct) -> ConsumptionState | None:
    """Say what follows; None where that cannot happen."""
    return MOVES[state].get(act)


def consume_key_of(text: str) -> bytes:
    """Hash a consume key: it is the caller's own word, and tells nobody else anything.

    Raises: ArgumentError where it is none.
    """
    if CONSUME_KEY.fullmatch(text) is None:
        raise ArgumentError(
            "`consume_key` has 1 to 200 printable ASCII characters without spaces; correct it"
        )
    return sha256(b"consume key\0" + text.encode()).digest()[:16]


class ArtifactStanding(Struct, frozen=True):
    """How an artifact stands: who holds it, and whether it was rejected."""

    holder: Consumption | None = None
    is_rejected: bool = False


FREE = ArtifactStanding()


def standings(consumptions: Iterable[Consumption]) -> dict[bytes, ArtifactStanding]:
    """Say how each artifact of these consumptions stands."""
    known: dict[bytes, ArtifactStanding] = {}
    for one in consumptions:
        before = known.get(one.artifact, FREE)
        known[one.artifact] = ArtifactStanding(
            holder=one if one.state in HELD else before.holder,
            is_rejected=before.is_rejected or one.state is ConsumptionState.REJECTED,
        )
    return known
