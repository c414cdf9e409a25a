"""A claim: a key, bound to content. The first with a key takes effect; pure.

Events, dead letters and the items of every further noun ask here what they are. Each has an id
that was minted before the first try: where the key's owner is the claimant itself, an earlier try
of the same batch was committed although its answer was lost.
"""

from typing import Final

from msgspec import Struct

from mailonce.core.events.key import Fingerprint, Key


class ClaimRow(Struct, frozen=True, gc=False):
    """A key that is taken: whom it belongs to, and the content it is bound to."""

    key: Key
    fingerprint: Fingerprint
    owner: bytes


class FirstClaim(Struct, frozen=True, gc=False):
    """The key is the claimant's own: it takes effect."""

    # An earlier try wrote it: the answer is the same, and there is nothing to write.
    stands: bool = False


class CopyOf(Struct, frozen=True, gc=False):
    """A copy: the key's owner has the same content."""

    owner: bytes
    # What showed it: the key itself, or what else a noun compares.
    recognised_by: str = "key"


class ConflictWith(Struct, frozen=True, gc=False):
    """A conflict: the key's owner has other content."""

    owner: bytes


Verdict = FirstClaim | CopyOf | ConflictWith

FIRST: Final = FirstClaim()
STANDS: Final = FirstClaim(stands=True)


def judge_claim(id_: bytes, fingerprint: Fingerprint, standing: ClaimRow | None) -> Verdict:
    """Judge a claimant of a key, given the stored claim."""
    if standing is None:
        return FIRST
    if standing.owner == id_:
        return STANDS
    if standing.fingerprint == fingerprint:
        return CopyOf(standing.owner)
    return ConflictWith(standing.owner)
