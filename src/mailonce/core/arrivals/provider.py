"""The contract that a provider's file fills in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.mail_fetch import MailFetch
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event
from mailonce.core.events.key import Recipe
from mailonce.core.json_text import Unreadable
from mailonce.core.mail.incoming import ContentFormat, IncomingMail


@dataclass(frozen=True, slots=True)
class Verified:
    """The arrival was proven by its sender's secret, or needs no further proof."""


VERIFIED = Verified()


@dataclass(frozen=True, slots=True)
class Refused:
    """The arrival is not proven. `reason` is one of a few fixed words, for counting.

    `challenge` is the scheme by which the sender could have proven it; HTTP demands that a 401
    names it.
    """

    reason: str
    challenge: str = "Signature"


@dataclass(frozen=True, slots=True)
class NeedKey:
    """Verification needs the key at `url`, which the provider has checked to be a pinned host."""

    url: str


Verdict = Verified | Refused | NeedKey


@dataclass(frozen=True, slots=True)
class Guard:
    """A value that may come with one content only (Mailgun signs a token, not the body)."""

    name: str
    value: str


class Parsed(Struct, frozen=True, kw_only=True, gc=False):
    """What an arrival says. Nothing at all is a probe: acknowledged, without effect."""

    events: tuple[Event, ...] = ()
    # Mail that the arrival hands over. Where an inbox takes it, reading it makes its `inbound`
    # event; the events above of that type stand for mail that no inbox takes.
    mails: tuple[IncomingMail, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    # The provider's id of this delivery, equal over its retries.
    delivery_id: str | None = None
    guard: Guard | None = None
    # A handshake: this URL, on a pinned host, must be fetched before we acknowledge.
    confirm_url: str | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer to a provider's check of our URL: not verified, and without effect."""

    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """The HTTP status codes by which this provider stops, or retries later."""

    done: int = 200
    refused: int = 401
    later: int = 503
    full: int = 503
    # Whether a 4xx ends its retries: what was refused because of a wrong key is never sent again.
    refused_is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundHook:
    """How a provider hands over mail: what the door, the settings and the documents must know.

    The mail itself is read by `parse`, which gives it as `Parsed.mails`.
    """

    docs: str
    # In which forms a mail comes, the best first.
    content: tuple[ContentFormat, ...]
    # Where the envelope stands, in the provider's words; '' where it tells none.
    envelope: str
    # Whether the provider's signature covers the mail itself.
    signs_mail: bool
    # The provider's name for an id that is equal over the retries of a mail.
    delivery_id: str | None = None
    # None: not documented.
    retry_horizon_s: int | None = None
    # In what a mail differs from what SMTP would have brought; whole sentences.
    differences: tuple[str, ...] = ()
    # The source's yes-or-no options that concern mail, and what each allows.
    flags: Mapping[str, str] = field(default_factory=dict)
    # How a mail, or a part of it, is fetched where the hook only says that it is there.
    fetches: tuple[MailFetch, ...] = ()


# The types of a provider's functions; each default serves those that need none of their own.
Verify = Callable[[Arrival, Source, Mapping[str, bytes]], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One mail service: pure functions and the facts about it.

    `verify(arrival, source, keys)` gets the keys fetched so far, by URL.
    `parse(arrival, source)` raises ParseError where the whole body is unreadable.
    `check(source)` is asked when a source is made or changed, and gives one sentence that names
    the setting and its fix, or None where the source can work.
    """

    name: str
    title: str
    docs: str
    parse: Callable[[Arrival, Source], Parsed]
    # The provider whose events these are, where they come by another way: keys and messages are
    # then its own, so that copies by both ways collapse within one account.
    family: str | None = None
    # A provider that signs nothing: the source's own proofs have been checked before.
    verify: Verify = lambda *_: VERIFIED
    # Called instead of `verify` where the source says that nothing is signed.
    verify_unsigned: Verify = lambda *_: VERIFIED
    check: Callable[[Source], str | None] = lambda _: None
    # Recognises a probe before anything is proven; what it answers must have no effect.
    probe: Callable[[Arrival, Source], Probe | None] = lambda *_: None
    # The methods that carry arrivals.
    methods: tuple[str, ...] = ("POST",)
    # A source may say by its option `other_content` that other content under a known key is a
    # revision of it, not a conflict with it.
    revises: bool = False
    # What of a body is equal in all copies of it, where a signature stands inside the body.
    unsigned: Callable[[Arrival], bytes] = lambda arrival: arrival.body
    # By what copies of its events are known; what fits none is known by all that it says.
    recipes: tuple[Recipe, ...] = ()
    # The provider's name for its own id of an event; None where it gives none.
    event_id: str | None = None
    # Which of the source's settings the signature needs; empty: the provider signs nothing.
    needs: tuple[str, ...] = ()
    signs_body: bool = True
    # How old a signed timestamp may be; None: there is none, or it is not checked.
    freshness_s: int | None = None
    retry_horizon_s: int = 86_400
    codes: Codes = field(default_factory=Codes)
    # It sends its password only after a 401 that asks for one (SNS): the first try of each delivery
    # lacks it, which is no reason for an alarm.
    sends_password_when_asked: bool = False
    # Headers that parse reads, kept with the arrival so that it can be parsed again.
    reads_headers: tuple[str, ...] = ()
    # Set where the provider hands over mail, not only events about mail.
    inbound: InboundHook | None = None
    # Empty where an operator's own words decide.
    types: frozenset[str] = frozenset()
    # The source's options that its functions read, and what each says; others are refused.
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def longest_retry_s(self) -> int:
        """Give for how long it may send the same again, be it an event or a mail."""
        of_mail = None if self.inbound is None else self.inbound.retry_horizon_s
        return max(self.retry_horizon_s, of_mail or 0)

    @property
    def known_options(self) -> Mapping[str, str]:
        """Give all options that a source may have, those that concern mail included."""
        return self.options if self.inbound is None else {**self.options, **self.inbound.flags}
