"""Receive: the one way of an arrival from its bytes to the answer that its sender gets.

`receive` is a generator. It decides, and yields what somebody else must do: find a source, fetch a
key, look at a large body beside the event loop, confirm a subscription, count a try, record. The
drivers in `drive` do these things and send back the results. Most arrivals need nothing but
the recording, so they are driven together, one step for all before the next step for all; one
that must wait goes on from where it stands, in a task of its own. Nothing is done twice.

A crash before the recording committed leaves nothing behind, and nobody was answered: the provider
sends again. A crash after it leaves everything, and the next copy is answered as a duplicate.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, NeedKey, Parsed, Provider, Refused, Verdict
from mailonce.core.arrivals.source import Poison, Source
from mailonce.core.events.key import Key
from mailonce.core.events.suppression import SUPPRESS, Suppress, suppress_in
from mailonce.core.ids import public
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, EntryOutcome, GuardBroken, Status
from mailonce.core.reading import form
from mailonce.core.signatures import proof, refusal
from mailonce.core.signatures.hmac_signature import STALE
from mailonce.errors import ConfigError, MissingError, ParseError, RefusedError, UnavailableError
from mailonce.pipeline.match_mail import NOWHERE, MailPlaces, with_mail
from mailonce.pipeline.parse import dead_entry, entry_of, poison_key
from mailonce.pipeline.record import FullError, Recorder
from mailonce.pipeline.refuse import Refusals
from mailonce.pipeline.verify import SWITCHED_OFF, verify_now, verify_with
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import ARRIVAL_DEAD, ARRIVAL_REFUSED, CONFIRMED, CONFLICT_KEPT, Metrics, log

# Larger bodies are looked at beside the event loop, so that others do not wait for them.
INLINE_BYTES_MAX = 64 << 10
LARGE_AT_ONCE = 2
# Of bodies as large as only mail is, one at a time is looked at.
HUGE_BYTES = 10 << 20
RETRY_AFTER_S = 2
HTTP_OK = 200
# Beyond this, a stale timestamp may be our own clock's fault.
SKEW_MS_MAX = 30_000
GUARD_BROKEN = Refused("the signed token came before with another body")
UNREADABLE = Refused(refusal.UNREADABLE)
TOO_MANY = Refused(refusal.TOO_MANY)
# A member of an enum is slow to look up.
_CONFLICT = Status.CONFLICT


@dataclass(slots=True, kw_only=True)
class Receiving:
    """The parts that receiving needs."""

    database: Database
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    refusals: Refusals
    # Gives a source by its id or name, if it is known here.
    known_source: Callable[[str], Source | None]
    # Asks the database. Raises: MissingError.
    find_source: Callable[[str], Awaitable[Source]]
    fetch_key: Callable[[str], Awaitable[bytes]]
    # Gives the status of the answer.
    fetch_url: Callable[[str], Awaitable[int]]
    # Counts one arrival of a source for the alarms: when it came, and whether it was refused.
    note: Callable[[str, int, bool], None]
    # Says for each recipient of a workspace's mail which inbox takes it, or why none does.
    match_mail: Callable[[str, Sequence[str]], Awaitable[MailPlaces]]
    # An arrival is written in one statement, which has a time limit.
    arrival_events_max: int = 5_000
    # Which events suppress, by workspace; '' stands for all others.
    suppress: Mapping[str, Suppress] = field(default_factory=dict)
    skew_ms: Callable[[], int] = lambda: 0
    # How many large bodies are processed at once: each may take many times its size in memory.
    large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))
    huge: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def entry_of(
        self, provider: Provider, source: Source, arrival: Arrival, parsed: Parsed
    ) -> Entry:
        """Make the entry that records what was parsed, by the settings of its workspace."""
        suppress = suppress_in(self.suppress, source.workspace) if self.suppress else SUPPRESS
        return entry_of(
            provider, source, arrival, parsed, new_id=self.clock.new_id, suppress=suppress
        )


class Reply(Struct, frozen=True, gc=False):
    """The answer to a sender: a status code and a small JSON object."""

    code: int
    body: dict[str, Any] = {}
    retry_after_s: int | None = None
    headers: Mapping[str, str] = {}


class Pause(Struct, frozen=True, gc=False):
    """Let the others of a batch get this far; the next step needs no waiting."""


class FindSource(Struct, frozen=True, gc=False):
    """Ask the database for a source that is not known here; gives the Source."""

    name: str


class FetchKey(Struct, frozen=True, gc=False):
    """Fetch the key that verifies a signature; gives its bytes."""

    url: str


class Offload(Struct, frozen=True, gc=False):
    """Run what may take long beside the event loop; gives what it returns."""

    work: Callable[[], Any]
    body_bytes: int


class MatchMail(Struct, frozen=True, gc=False):
    """Find the inboxes that recipients mean; gives a `MailPlaces`."""

    workspace: str
    recipients: tuple[str, ...]


class Confirm(Struct, frozen=True, gc=False):
    """Ask for the URL that confirms a subscription; gives the status of the answer."""

    url: str


class CountTry(Struct, frozen=True, gc=False):
    """Count one more try of an unreadable body; gives how many there were."""

    source: str
    key: Key


class RecordEntry(Struct, frozen=True, gc=False):
    """Make an entry durable; gives its outcome."""

    entry: Entry


Step = Pause | FindSource | FetchKey | Offload | MatchMail | Confirm | CountTry | RecordEntry
# A driver sends what a step gives, and throws the error with which it failed.
Flow = Generator[Step, Any, Reply]
PAUSE = Pause()


class _Case(Struct, frozen=True, gc=False):
    """An arrival, and by whose rules it is received."""

    parts: Receiving
    provider: Provider
    source: Source
    arrival: Arrival


def receive(parts: Receiving, name: str, arrival: Arrival) -> Flow:
    """Take one arrival for the source of this id or name.

    Invariant: a 2xx leaves only after what it stands for is durable, or is nothing at all (a
    probe). Whatever is our own fault is answered with the code on which this provider tries again.
    """
    codes: Codes | None = None
    try:
        source = parts.known_source(name)
        if source is None:
            source = yield FindSource(name)
        provider = provider_of(source)
        codes = provider.codes
        reply = _without_proof(provider, source, arrival)
        if reply is not None:
            return reply
        is_large = _is_large(arrival)
        verdict = (
            (yield Offload(partial(verify_now, provider, source, arrival), len(arrival.body)))
            if is_large
            else verify_now(provider, source, arrival)
        )
        if isinstance(verdict, NeedKey):
            verdict = yield from _verify_with_key(provider, source, arrival, verdict.url)
        if isinstance(verdict, Refused):
            return _refused(_Case(parts, provider, source, arrival), verdict)
        yield PAUSE
        if "GET" in provider.methods:
            arrival = form.with_query(arrival)
        case = _Case(parts, provider, source, arrival)
        try:
            if is_large:
                # In one go, so that no more large bodies are held as objects than are looked at.
                parsed, entry = yield Offload(partial(_read, case), len(arrival.body))
            else:
                parsed = provider.parse(arrival, source)
                yield PAUSE
                entry = None if parsed.mails else _entry_of(case, parsed)
            if parsed.mails:
                entry = yield from _take_mail(case, parsed, is_large=is_large)
        except ParseError as error:
            return (yield from _take_unreadable(case, str(error)))
        if entry is None:
            return (yield from _take_nothing(case, parsed))
        return _reply_to(case, entry, (yield RecordEntry(entry)))
    except MissingError as error:
        parts.metrics.unknown_sources.inc()
        parts.refusals.add_unknown(name, arrival)
        return Reply(404, {"detail": str(error)})
    except (ConfigError, UnavailableError) as error:
        parts.metrics.door.count_unavailable(error)
        return _fail(codes, error)


def _take_mail(
    case: _Case, parsed: Parsed, *, is_large: bool
) -> Generator[Step, Any, Entry | None]:
    """Find the inboxes of mail that a hook handed over, and make the entry that keeps it."""
    recipients = tuple(one for mail in parsed.mails for one in mail.envelope.recipients)
    places: MailPlaces = yield MatchMail(case.source.workspace, recipients)
    work = partial(_entry_of, case, parsed, places)
    entry: Entry | None = (yield Offload(work, len(case.arrival.body))) if is_large else work()
    return entry


def _verify_with_key(
    provider: Provider, source: Source, arrival: Arrival, url: str
) -> Generator[Step, Any, Verdict]:
    keys = {url: (yield FetchKey(url))}
    work = partial(verify_with, provider, source, arrival, keys)
    size = len(arrival.body)
    verdict: Verdict = (yield Offload(work, size)) if _is_large(arrival) else work()
    return verdict


def _is_large(arrival: Arrival) -> bool:
    """Say whether processing takes long; a small compressed body may be a large one."""
    return len(arrival.body) > INLINE_BYTES_MAX or "content-encoding" in arrival.headers


def _read(case: _Case) -> tuple[Parsed, Entry | None]:
    parsed = case.provider.parse(case.arrival, case.source)
    return parsed, None if parsed.mails else _entry_of(case, parsed)


def _entry_of(case: _Case, parsed: Parsed, places: MailPlaces = NOWHERE) -> Entry | None:
    """Make the entry, unless it is a handshake, or more than can be written at once."""
    parts = case.parts
    events = len(parsed.events) + len(parsed.unreadable) + len(parsed.mails)
    if parsed.confirm_url is not None or events > parts.arrival_events_max:
        return None
    entry = parts.entry_of(case.provider, case.source, case.arrival, parsed)
    if not parsed.mails:
        return entry
    return with_mail(entry, parsed, places, new_id=parts.clock.new_id)


def _reply_to(case: _Case, entry: Entry, answer: EntryOutcome) -> Reply:
    if isinstance(answer, GuardBroken):
        return _refuse(case, GUARD_BROKEN)
    count(case.parts, case.source, case.arrival, entry, answer)
    return Reply(
        case.provider.codes.done,
        {
            "status": str(answer.status),
            "arrival": public("arr", entry.id),
            "events": answer.events,
            "new": answer.new,
        },
    )


def count(
    parts: Receiving, source: Source, arrival: Arrival, entry: Entry, answer: ArrivalOutcome
) -> None:
    """Count an arrival that was recorded, and log conflicts and dead letters."""
    metrics, name = parts.metrics, source.id
    parts.note(name, arrival.now_ms, False)
    metrics.of_source(name).count(answer.status, new=answer.new, copies=answer.events - answer.new)
    if answer.by_content:
        metrics.copies_by_content.labels(name).inc(answer.by_content)
    if answer.status is _CONFLICT:
        metrics.conflicts.labels(name).inc()
        log.warning(CONFLICT_KEPT, source=name, name=source.name, arrival=public("arr", entry.id))
    if answer.dead:
        metrics.dead_letters.labels(name).inc(answer.dead)
        dead = {"arrival": public("arr", entry.id), "count": answer.dead}
        log.warning(ARRIVAL_DEAD, source=name, name=source.name, **dead)


def _without_proof(provider: Provider, source: Source, arrival: Arrival) -> Reply | None:
    """Answer what needs no proof: a probe, or a method that this provider never uses."""
    probe = provider.probe(arrival, source)
    if probe is not None:
        return Reply(probe.code, {"status": "ignored"}, headers=probe.headers)
    if arrival.method not in provider.methods:
        allow = ", ".join(provider.methods)
        detail = f"{provider.title} sends its webhooks with {allow}"
        return Reply(405, {"detail": detail}, headers={"Allow": allow})
    return None


def _take_nothing(case: _Case, parsed: Parsed) -> Flow:
    """Deal with what is not recorded: a handshake, or more than can be written at once."""
    if parsed.confirm_url is not None:
        return (yield from _confirm(case, parsed.confirm_url))
    return _too_many(case, len(parsed.events) + len(parsed.unreadable) + len(parsed.mails))


def _confirm(case: _Case, url: str) -> Flow:
    """Complete a handshake before acknowledging it; where that fails the provider retries."""
    try:
        status = yield Confirm(url)
    except RefusedError as error:
        raise UnavailableError(f"the subscription cannot be confirmed: {error}") from error
    if status != HTTP_OK:
        raise UnavailableError(f"the subscription was not confirmed (HTTP {status}); ask again")
    log.info(CONFIRMED, source=case.source.id, name=case.source.name)
    case.parts.metrics.arrivals.labels(case.source.id, Status.IGNORED.value).inc()
    return Reply(case.provider.codes.done, {"status": "ignored", "events": 0, "new": 0})


def _take_unreadable(case: _Case, reason: str) -> Flow:
    """Handle a verified but unreadable body, as the source's `poison` setting says."""
    parts, provider, source, arrival = case.parts, case.provider, case.source, case.arrival
    if source.poison is Poison.REFUSE:
        return _refuse(case, UNREADABLE, detail=reason)
    attempts = 1
    if source.poison is Poison.RETRY:
        attempts = yield CountTry(source.id, poison_key(provider, source, arrival))
        if attempts <= source.poison_attempts:
            raise UnavailableError(f"the body cannot be read (try {attempts}): {reason}")
    new_id = parts.clock.new_id
    entry = dead_entry(provider, source, arrival, reason, new_id=new_id, attempts=attempts)
    return _reply_to(case, entry, (yield RecordEntry(entry)))


def _refused(case: _Case, verdict: Refused) -> Reply:
    if verdict is STALE and abs(case.parts.skew_ms()) > SKEW_MS_MAX:
        return _later(case.provider.codes.later, UnavailableError("this clock is off"))
    refused = _refuse(case, verdict)
    if verdict is SWITCHED_OFF:
        # It may be switched on again before the provider gives up.
        return _later(case.provider.codes.later, UnavailableError(SWITCHED_OFF.reason))
    return refused


def _refuse(case: _Case, refused: Refused, *, detail: str | None = None) -> Reply:
    parts, provider, source, reason = case.parts, case.provider, case.source, refused.reason
    if parts.refusals.add(source, case.arrival, reason):
        # Once for a flood of forgeries, which would fill the disk; the metric counts all of it.
        log.info(ARRIVAL_REFUSED, source=source.id, name=source.name, reason=reason)
    if refused is not proof.NO_PASSWORD or not provider.sends_password_when_asked:
        parts.note(source.id, case.arrival.now_ms, True)
    parts.metrics.refusals.labels(source.id, reason).inc()
    # A sender that may still send a password gets a 401, whatever else would stop it.
    is_asked = refused.challenge == proof.BASIC
    code = 401 if is_asked else refusal.code_of(reason, provider.codes)
    headers = {"WWW-Authenticate": f'{refused.challenge} realm="mailonce"'} if code == 401 else {}
    return Reply(code, {"status": "refused", "detail": detail or reason}, headers=headers)


def _too_many(case: _Case, events: int) -> Reply:
    """Refuse an arrival that could never be written: "later" would be asked for without end."""
    detail = (
        f"the body holds {events} events, and {case.parts.arrival_events_max} are taken at once; "
        "send smaller batches, or raise `limits.arrival_events_max`"
    )
    return _refuse(case, TOO_MANY, detail=detail)


def _fail(codes: Codes | None, error: ConfigError | UnavailableError) -> Reply:
    if codes is None or isinstance(error, ConfigError):
        # Before the source is known there is no provider whose code would fit better.
        return Reply(503, {"detail": str(error)}, RETRY_AFTER_S)
    return _later(codes.full if isinstance(error, FullError) else codes.later, error)


def _later(code: int, error: UnavailableError) -> Reply:
    return Reply(code, {"status": "unavailable", "detail": str(error)}, RETRY_AFTER_S)


def provider_of(source: Source) -> Provider:
    """Find the provider of a source.

    Raises: ConfigError where it is not installed.
    """
    provider = providers.find(source.provider)
    if provider is None:
        raise ConfigError(f"provider {source.provider!r} is not installed any more; install it")
    return provider
