"""A source: one configured account of a provider, with its secrets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Poison(StrEnum):
    """What becomes of an arrival that is verified but cannot be read."""

    DEAD_LETTER = "dead_letter"
    REFUSE = "refuse"
    RETRY = "retry"


_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Every proof is a tuple, so that an old and a new one overlap during a rotation."""

    id: str
    workspace: str
    name: str
    provider: str
    # Scope of keys: sources that share an account collapse each other's copies.
    account: str
    secrets: tuple[str, ...] = ()
    public_keys: tuple[str, ...] = ()
    basic: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    # "Name: value" pairs; each must be present with one of its values.
    headers: tuple[str, ...] = ()
    allow_ips: tuple[str, ...] = ()
    topic_arns: tuple[str, ...] = ()
    # The operator said that this source needs no proof.
    unproven: bool = False
    # The operator said that the provider does not sign what it sends here.
    unsigned: bool = False
    poison: Poison = Poison.DEAD_LETTER
    poison_attempts: int = 5
    # None: as the provider's record says; 0: any age.
    freshness_s: int | None = None
    # How long the source may be silent before an alarm; None: learned from its rhythm; 0: for ever.
    silence_s: int | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    @property
    def is_signed(self) -> bool:
        """Whether the provider's signature is asked for, if it has one.

        A source that needs no proof asks for it all the same where it was given the means.
        """
        if self.unsigned:
            return False
        return not self.unproven or bool(self.secrets or self.public_keys or self.topic_arns)
