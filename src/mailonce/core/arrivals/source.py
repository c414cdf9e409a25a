"""A source: one configured account of a provider, with its secrets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from mailonce.core import bounds
from mailonce.core.empty_secret import empty_setting_of, is_empty_proof
from mailonce.core.fields import setting_fields


class Poison(StrEnum):
    """What becomes of an arrival that is verified but cannot be read."""

    DEAD_LETTER = "dead_letter"
    REFUSE = "refuse"
    RETRY = "retry"


# What proves, each value alone; of headers, one value for each name.
_PROOFS = ("secrets", "public_keys", "basic", "tokens", "allow_ips", "topic_arns")
# The source of mail that comes over SMTP, and its account; nobody configures it. From there comes
# what a mail reports about another as well, whichever way the mail came.
SMTP = "smtp"
SMTP_ACCOUNT = "smtp/door"
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
    # With which mail is fetched that a hook only announces; the first is used.
    api_keys: tuple[str, ...] = ()
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
    # Why it was switched off; None while it is on.
    off: str | None = None
    # No master key of this process opens its secrets: nothing can be verified, so nothing is taken.
    is_unreadable: bool = False
    # Which setting has an empty value, that everybody knows. Read for each arrival, so it is kept.
    empty_setting: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "empty_setting", empty_setting_of(self))

    @property
    def is_signed(self) -> bool:
        """Whether the provider's signature is checked, if it has one.

        A source that needs no proof asks for it all the same where it was given the means.
        """
        if self.unsigned:
            return False
        return not self.unproven or bool(self.secrets or self.public_keys or self.topic_arns)

    def without_empty(self) -> "Source | None":
        """Take away what is empty among the proofs; None where one of them has nothing left.

        A proof that is left out is not demanded, so none may become one.
        """
        left: dict[str, Any] = {}
        for name in _PROOFS:
            values: tuple[str, ...] = getattr(self, name)
            kept = tuple(value for value in values if not is_empty_proof(name, value))
            if values and not kept:
                return None
            left[name] = kept
        headers = tuple(pair for pair in self.headers if not is_empty_proof("headers", pair))
        if _names(headers) != _names(self.headers):
            return None
        return replace(self, headers=headers, **left)


# All but who it is, and its state.
_STATE = ("off", "is_unreadable", "empty_setting")
SETTINGS = setting_fields(Source, but=("id", "workspace", "name", "provider", "account", *_STATE))

# By field: how many values, and how many characters in each. A certificate is a public key with
# some words around it.
_LISTS: Mapping[str, tuple[int, int]] = {
    "secrets": (10, 1_000),
    "public_keys": (10, 10_000),
    "basic": (10, 1_000),
    "tokens": (10, 1_000),
    "headers": (10, 2_000),
    "allow_ips": (500, 100),
    "topic_arns": (100, 300),
    "api_keys": (10, 1_000),
}
ACCOUNT_CHARS_MAX = 200
OPTIONS_BYTES_MAX = 20_000


def troubles_of_size(source: Source) -> Iterator[str]:
    """Say which settings of a source are too large or cannot be kept, and what to do."""
    yield from bounds.of_text("name", source.name, bounds.NAME_CHARS_MAX)
    yield from bounds.of_text("account", source.account, ACCOUNT_CHARS_MAX)
    yield from bounds.of_lists(source, _LISTS)
    yield from bounds.of_json("options", dict(source.options), OPTIONS_BYTES_MAX)


def fault_of_empty(source: Source) -> str | None:
    """Say in one sentence which setting has an empty value, or None."""
    if source.empty_setting is None:
        return None
    return (
        f"`{source.empty_setting}` has an empty value, which everybody knows; give the one that "
        "the provider has, or leave the setting out"
    )


def fault_of_flag(source: Source, option: str) -> str | None:
    """Say in one sentence that an option is neither true nor false, or None."""
    is_flag = isinstance(source.options.get(option, False), bool)
    return None if is_flag else f"option {option!r} must be true or false"


def _names(headers: tuple[str, ...]) -> set[str]:
    return {pair.partition(":")[0].strip().lower() for pair in headers}
