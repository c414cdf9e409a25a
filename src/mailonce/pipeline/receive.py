"""Receive: an arrival goes through verify, parse and record, and its sender hears one answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from msgspec import Struct

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core import form, proof
from mailonce.core.arrival import Arrival
from mailonce.core.entry import Answer, Entry, GuardBroken, Status
from mailonce.core.ids import public
from mailonce.core.provider import NeedKey, Parsed, Provider, Refused
from mailonce.core.scheme import STALE
from mailonce.core.source import Poison, Source
from mailonce.core.suppression import SUPPRESS, Suppress, suppress_in
from mailonce.errors import ConfigError, ParseError, RefusedError, UnavailableError
from mailonce.pipeline.parse import dead_entry, entry_of, parse, poison_key
from mailonce.pipeline.record import FullError, Heard, Recorder
from mailonce.pipeline.refuse import Refusals
from mailonce.pipeline.verify import FetchKey, Run, verify, verify_now
from mailonce.store import poison
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import (
    ARRIVAL_DEAD,
    ARRIVAL_REFUSED,
    CONFIRMED,
    CONFLICT_KEPT,
    Metrics,
    log,
)

# Larger bodies are parsed beside the event loop, so that others do not wait for them.
PARSE_INLINE_BYTES_MAX = 64 << 10
LARGE_AT_ONCE = 2
RETRY_AFTER_S = 2
HTTP_OK = 200
# Beyond this, a stale timestamp may be our own clock's fault.
SKEW_MS_MAX = 30_000
GUARD_BROKEN = Refused("the signed token came before with another body")
UNREADABLE = Refused("unreadable")
TOO_MANY = Refused("too many events")


_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Door:
    """The parts that receiving needs."""

    database: Database
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    refusals: Refusals
    fetch_key: FetchKey
    # Gives the status of the answer.
    fetch_url: Callable[[str], Awaitable[int]]
    # Counts one arrival of a source for the alarms: when it came, and whether it was refused.
    note: Callable[[str, int, bool], None]
    # An arrival is written in one statement, which has a time limit.
    arrival_events_max: int = 5_000
    # Which events suppress, by workspace; '' stands for all others.
    suppress: Mapping[str, Suppress] = field(default_factory=dict)
    skew_ms: Callable[[], int] = lambda: 0
    # How many large bodies are looked at at once: each may take many times its size in memory.
    large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_AT_ONCE))

    def entry_of(
        self, provider: Provider, source: Source, arrival: Arrival, parsed: Parsed
    ) -> Entry:
        """Make the entry that records what was parsed, by the settings of its workspace."""
        suppress = suppress_in(self.suppress, source.workspace) if self.suppress else SUPPRESS
        return entry_of(
            provider, source, arrival, parsed, new_id=self.clock.new_id, suppress=suppress
        )


class Reply(Struct, frozen=True, gc=False):
    """What the sender hears: a status code and a small JSON object."""

    code: int
    body: dict[str, Any] = {}
    retry_after_s: int | None = None
    headers: Mapping[str, str] = {}

    @property
    def json(self) -> bytes:
        """The body as bytes."""
        return orjson.dumps(self.body)


class Pending(Struct, frozen=True, gc=False):
    """An arrival that was proven and read, and waits to become durable."""

    door: Door
    provider: Provider
    source: Source
    arrival: Arrival
    entry: Entry

    def reply_to(self, heard: Heard) -> Reply:
        """Count what became of it, and say it to the sender."""
        door, provider, source = self.door, self.provider, self.source
        if isinstance(heard, Answer):
            door.note(source.id, self.arrival.now_ms, False)
            _count(door.metrics, source, self.entry, heard)
            return Reply(
                provider.codes.done,
                {
                    "status": str(heard.status),
                    "arrival": public("arr", self.entry.id),
                    "events": heard.events,
                    "new": heard.new,
                },
            )
        if isinstance(heard, GuardBroken):
            return _refuse(door, provider, source, self.arrival, GUARD_BROKEN)
        full = isinstance(heard, FullError)
        return _later(provider.codes.full if full else provider.codes.later, heard)


class _Proven(Struct, frozen=True, gc=False):
    provider: Provider
    source: Source
    arrival: Arrival


def begin(door: Door, came: Iterable[tuple[Source, Arrival]]) -> list[Pending | Reply | None]:
    """Do all of receiving that waits for nobody: nearly always that is all but the commit.

    None where somebody must be waited for (a key, a handshake, a large body), where the body
    cannot be read, or where something is wrong: nothing was done, and `receive` finds out what.
    Each step is done for all before the next one: what a processor has just run, it runs faster.
    """
    proven = [_prove_now(door, source, arrival) for source, arrival in came]
    read = [_parse_now(one) if isinstance(one, _Proven) else None for one in proven]
    return [
        _pend(door, one, parsed) if isinstance(one, _Proven) else one
        for one, parsed in zip(proven, read, strict=True)
    ]


def _prove_now(door: Door, source: Source, arrival: Arrival) -> _Proven | Reply | None:
    try:
        provider = provider_of(source)
        reply = _without_proof(provider, source, arrival)
        if reply is not None:
            return reply
        if _is_large(arrival):
            return None
        verdict = verify_now(provider, source, arrival)
        if isinstance(verdict, Refused):
            return _refused(door, provider, source, arrival, verdict)
        if isinstance(verdict, NeedKey):
            return None
        if "GET" in provider.methods:
            arrival = form.with_query(arrival)
        return _Proven(provider, source, arrival)
    except Exception:  # noqa: BLE001 - `receive` meets it again, and says so
        return None


def _parse_now(proven: _Proven) -> Parsed | None:
    try:
        parsed = parse(proven.provider, proven.source, proven.arrival)
    except Exception:  # noqa: BLE001 - `receive` meets it again, and says so
        return None
    return parsed if parsed.confirm_url is None else None


def _pend(door: Door, proven: _Proven, parsed: Parsed | None) -> Pending | None:
    if parsed is None or len(parsed.events) + len(parsed.unreadable) > door.arrival_events_max:
        return None
    provider, source, arrival = proven.provider, proven.source, proven.arrival
    try:
        entry = door.entry_of(provider, source, arrival, parsed)
    except Exception:  # noqa: BLE001 - `receive` meets it again, and says so
        return None
    return Pending(door, provider, source, arrival, entry)


async def receive(door: Door, source: Source, arrival: Arrival) -> Reply:
    """Take one arrival.

    Invariant: a 2xx leaves only after what it stands for is durable, or is nothing at all (a
    probe). Whatever is our own fault is answered with the code on which this provider tries again.
    """
    provider = provider_of(source)
    reply = _without_proof(provider, source, arrival)
    if reply is not None:
        return reply
    try:
        run = _beside(door, arrival)
        verdict = await verify(door.fetch_key, provider, source, arrival, run=run)
        if isinstance(verdict, Refused):
            return _refused(door, provider, source, arrival, verdict)
        if "GET" in provider.methods:
            arrival = form.with_query(arrival)
        return await _take(door, provider, source, arrival)
    except FullError as error:
        return _later(provider.codes.full, error)
    except UnavailableError as error:
        return _later(provider.codes.later, error)


async def _take(door: Door, provider: Provider, source: Source, arrival: Arrival) -> Reply:
    try:
        read = _beside(door, arrival)
        entry_or_parsed = await read(lambda: _read(door, provider, source, arrival))
    except ParseError as error:
        return await _poisoned(door, provider, source, arrival, str(error))
    if isinstance(entry_or_parsed, int):
        return _too_many(door, provider, source, arrival, entry_or_parsed)
    if isinstance(entry_or_parsed, Parsed):
        return await _confirm(door, provider, source, entry_or_parsed)
    return await _record(door, provider, source, arrival, entry_or_parsed)


def _is_large(arrival: Arrival) -> bool:
    """Say whether looking at this takes long; a small body that is packed may be a large one."""
    return len(arrival.body) > PARSE_INLINE_BYTES_MAX or "content-encoding" in arrival.headers


def _beside(door: Door, arrival: Arrival) -> Run:
    """Run what looks at a large body beside the event loop, few at once; anything else here."""

    async def run(look: Callable[[], _T]) -> _T:
        if not _is_large(arrival):
            return look()
        async with door.large:
            return await asyncio.to_thread(look)

    return run


def _read(door: Door, provider: Provider, source: Source, arrival: Arrival) -> Entry | Parsed | int:
    """Read an arrival: a handshake as it is, and of one with too many events their number."""
    parsed = parse(provider, source, arrival)
    if parsed.confirm_url is not None:
        return parsed
    if _size(parsed) > door.arrival_events_max:
        return _size(parsed)
    return door.entry_of(provider, source, arrival, parsed)


async def _record(
    door: Door, provider: Provider, source: Source, arrival: Arrival, entry: Entry
) -> Reply:
    pending = Pending(door, provider, source, arrival, entry)
    return pending.reply_to(await door.recorder.record(entry))


def _count(metrics: Metrics, source: Source, entry: Entry, answer: Answer) -> None:
    name = source.id
    counters = metrics.of_source(name)
    counters.count(answer.status, new=answer.new, copies=answer.events - answer.new)
    if answer.by_content:
        metrics.copies_by_content.labels(name).inc(answer.by_content)
    if answer.status is Status.CONFLICT:
        metrics.conflicts.labels(name).inc()
        log.warning(CONFLICT_KEPT, source=name, arrival=public("arr", entry.id))
    if answer.dead:
        metrics.dead_letters.labels(name).inc(answer.dead)
        log.warning(ARRIVAL_DEAD, source=name, arrival=public("arr", entry.id), count=answer.dead)


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


async def _confirm(door: Door, provider: Provider, source: Source, parsed: Parsed) -> Reply:
    """Complete a handshake before acknowledging it; where that fails the provider asks again."""
    assert parsed.confirm_url is not None, "only a handshake is confirmed"
    try:
        status = await door.fetch_url(parsed.confirm_url)
    except RefusedError as error:
        raise UnavailableError(f"the subscription cannot be confirmed: {error}") from error
    if status != HTTP_OK:
        raise UnavailableError(f"the subscription was not confirmed (HTTP {status}); ask again")
    log.info(CONFIRMED, source=source.id)
    door.metrics.arrivals.labels(source.id, Status.IGNORED.value).inc()
    return Reply(provider.codes.done, {"status": "ignored", "events": 0, "new": 0})


async def _poisoned(
    door: Door, provider: Provider, source: Source, arrival: Arrival, reason: str
) -> Reply:
    """Deal with what is proven but cannot be read, as the source's `poison` setting says."""
    if source.poison is Poison.REFUSE:
        _refuse(door, provider, source, arrival, UNREADABLE)
        return Reply(400, {"status": "refused", "detail": reason})
    attempts = 1
    if source.poison is Poison.RETRY:
        key, now_ms = poison_key(provider, source, arrival).hex(), door.clock.now_ms()
        attempts = await door.database.write(
            lambda tx: poison.count_try(tx, source.id, key, now_ms=now_ms)
        )
        if attempts <= source.poison_attempts:
            raise UnavailableError(f"the body cannot be read (try {attempts}): {reason}")
    entry = dead_entry(
        provider, source, arrival, reason, new_id=door.clock.new_id, attempts=attempts
    )
    return await _record(door, provider, source, arrival, entry)


def _refused(
    door: Door, provider: Provider, source: Source, arrival: Arrival, verdict: Refused
) -> Reply:
    if verdict is STALE and abs(door.skew_ms()) > SKEW_MS_MAX:
        return _later(provider.codes.later, UnavailableError("this clock is off"))
    return _refuse(door, provider, source, arrival, verdict)


def _refuse(
    door: Door, provider: Provider, source: Source, arrival: Arrival, refused: Refused
) -> Reply:
    reason = refused.reason
    if door.refusals.add(source, arrival, reason):
        # Once for a flood of forgeries, which would fill the disk; the metric counts all of it.
        log.info(ARRIVAL_REFUSED, source=source.id, reason=reason)
    if refused is not proof.NO_PASSWORD or not provider.sends_password_when_asked:
        door.note(source.id, arrival.now_ms, True)
    door.metrics.refusals.labels(source.id, reason).inc()
    # Who may still send a password is asked for it, whatever else makes this provider stop.
    code = 401 if refused.challenge == proof.BASIC else provider.codes.refused
    headers = {"WWW-Authenticate": f'{refused.challenge} realm="mailonce"'} if code == 401 else {}
    return Reply(code, {"status": "refused", "detail": reason}, headers=headers)


def _size(parsed: Parsed) -> int:
    return len(parsed.events) + len(parsed.unreadable)


def _too_many(
    door: Door, provider: Provider, source: Source, arrival: Arrival, events: int
) -> Reply:
    """Refuse an arrival that could never be written: "later" would be asked for without end."""
    _refuse(door, provider, source, arrival, TOO_MANY)
    detail = (
        f"the body holds {events} events, and {door.arrival_events_max} are taken at once; "
        "send smaller batches, or raise `limits.arrival_events_max`"
    )
    return Reply(413, {"status": "refused", "detail": detail})


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
