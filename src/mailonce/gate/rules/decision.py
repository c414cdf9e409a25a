"""What becomes of a request: pure rules over its claim and the stored record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mailonce.gate.rules.fingerprint import differing
from mailonce.gate.rules.http import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request claims: a key, within a scope, for this content."""

    scope: str
    key: str
    fingerprint: str
    fields: Mapping[str, str] = field(default_factory=dict)
    # It is a redelivery: a recorded refusal may be tried again.
    redelivery: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """The stored record of a key."""

    fingerprint: str
    fields: Mapping[str, str]
    # None while the first is not finished.
    response: Response | None
    # The window has not ended.
    live: bool
    # Somebody holds a lease on it.
    held: bool


@dataclass(frozen=True, slots=True)
class First:
    """Run it: `token` fences its writes, `points` are the recovery points of a crashed copy."""

    token: int
    points: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replay:
    """It was done: repeat the recorded response."""

    response: Response


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key belongs to other content; `fields` are the top-level ones that differ."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """Another copy is running, or its outcome is not visible yet."""


Decision = First | Replay | Conflict | Running


def judge(claim: Claim, record: ClaimRecord | None) -> Replay | Conflict | Running | None:
    """Say what `record` means to `claim`; None: the claim may proceed.

    An unfinished record that nobody holds is free for the same content only: the key was bound
    when it was first claimed, and what the crashed one did outside cannot be told from here.
    """
    if record is None:
        return None
    if not record.live:
        return Running() if record.held else None
    if record.fingerprint != claim.fingerprint:
        return Conflict(differing(claim.fields, record.fields))
    if record.response is not None:
        if claim.redelivery and record.response.status >= REFUSAL:
            return None
        return Replay(record.response)
    return Running() if record.held else None


# They tell the sender to retry: a retry must not get the same answer for ever.
_TRANSIENT = frozenset({408, 409, 425, 429})
# What a handler changed before it answered with this or more is not kept; so it may run again. A
# recorded redirect's work is.
REFUSAL = 400


def is_success(status: int) -> bool:
    """Say whether the work was done: a success stays one, whatever is repaired later."""
    return 200 <= status < 300


def is_final(status: int) -> bool:
    """Say whether the same request would get the same answer again."""
    return is_success(status) or (400 <= status < 500 and status not in _TRANSIENT)
