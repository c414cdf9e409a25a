"""Replay: record the log's arrivals in a scratch database, shuffled and duplicated; compare.

What cannot be compared is set aside and counted: effects of conflicts and of copies that were
known by an alias (which of them came first names the event), effects that rest on pruned events,
arrivals that today's code reads otherwise, and whatever changes while we look.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeVar

import orjson
from msgspec.structs import replace

from mailonce import providers
from mailonce.clock import Clock
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.events.facts import AHEAD_MS_MAX, Kind, kind_of
from mailonce.core.events.suppression import Suppress, suppress_in
from mailonce.core.ids import ArrivalId, minted_ms
from mailonce.core.ledger import comparison
from mailonce.core.ledger.comparison import (
    ComparedStatement,
    CountPlace,
    Difference,
    FactPlace,
    SuppressionPlace,
)
from mailonce.core.ledger.entry import Candidate, CountRow, Entry
from mailonce.errors import ParseError
from mailonce.pipeline.parse import entry_of
from mailonce.store.dialects.contract import DAY_MS, Batch, Database, Log
from mailonce.store.ledger import arrivals, effects, events
from mailonce.store.ledger.arrivals import StoredArrival
from mailonce.store.ledger.effects import Extent, StoredFact, StoredStatement
from mailonce.store.ledger.events import LoggedEvent, LogPosition

PAGE_ROWS = 1_000
READ_ARRIVALS = 50
BATCH_EVENTS = 500
COPIES_MAX = 3
DIFFERENCES_MAX = 1_000

T = TypeVar("T")
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class ReplayReport:
    """What was compared, what was set aside, and what differs (at most `DIFFERENCES_MAX`)."""

    arrivals: int = 0
    replayed: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    aside: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def note(self, what: str, difference: Difference | None) -> None:
        """Count one comparison, and keep what differs."""
        self.compared[what] += 1
        if difference is not None and len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(difference)


@dataclass(slots=True)
class _Aside:
    """What cannot be compared."""

    elements: set[tuple[bytes, int]]
    events: set[bytes]
    facts: set[FactPlace] = field(default_factory=set)
    counts: Counter[CountPlace] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReplay:
    """The parts of one replay; `extent` is what the log spanned when it began."""

    log: Log
    scratch: Database
    clock: Clock
    sources: Mapping[str, Source]
    extent: Extent
    suppress: Mapping[str, Suppress] = field(default_factory=dict)


async def replay(parts: LogReplay, *, seed: int, progress: Progress) -> ReplayReport:
    """Replay the log into the scratch database in random order, then compare all effects.

    The log is read in pages, and never for long.
    """
    report = ReplayReport()
    conflicts = await parts.log.read(effects.conflicts)
    aside = _Aside({(row[1], row[2]) for row in conflicts}, {row[0] for row in conflicts})
    ids = await _all_ids(parts)
    rng = Random(seed)  # noqa: S311 - the same order for the same seed, nothing secret
    order = [id_ for id_ in ids for _ in range(rng.randint(1, COPIES_MAX))]
    rng.shuffle(order)
    report.arrivals, report.replayed = len(ids), len(order)
    done = 0
    for start in range(0, len(order), READ_ARRIVALS):
        some = order[start : start + READ_ARRIVALS]
        await _write(parts, some, aside, report)
        done += len(some)
        progress(done, len(order))
    await _set_mail_aside(parts, aside, report)
    await _compare_facts(parts, aside, report)
    await _compare_suppressions(parts, aside, report)
    await _compare_counts(parts, aside, report)
    return report


async def _all_ids(parts: LogReplay) -> list[ArrivalId]:
    page = partial(arrivals.ids_with_body, until_ms=parts.extent.last_ms)
    return [id_ async for id_ in _rows(parts.log, page, lambda id_: id_)]


async def _write(
    parts: LogReplay, some: Sequence[ArrivalId], aside: _Aside, report: ReplayReport
) -> None:
    """Parse and record some arrivals as the door does, a batch after the other."""
    stored, copied = await parts.log.read(
        lambda tx: (arrivals.get_many(tx, some), arrivals.copied_keys(tx, some))
    )
    entries: list[Entry] = []
    weight = 0
    for arrival in (stored[id_] for id_ in some if id_ in stored):
        entry = _entry(parts, arrival)
        if entry is None or len(entry.events) != arrival.events:
            await _set_aside(parts, arrival, aside, report)
            continue
        kept: list[Candidate] = []
        for position, candidate in enumerate(entry.events):
            if _is_plain((arrival.id, position), candidate, copied, aside):
                kept.append(candidate)
            else:
                aside.facts.add(_fact_place(entry, candidate))
        received = tuple(_as_received(candidate, arrival.received_ms) for candidate in kept)
        # The scratch database need not keep what the log keeps already, and what the log has
        # let in has passed its guard.
        entries.append(
            replace(entry, events=received, body=b"", headers=b"{}", dead=(), guard=None)
        )
        weight += len(kept)
        if weight >= BATCH_EVENTS:
            await _record(parts, entries)
            entries, weight = [], 0
    await _record(parts, entries)


async def _record(parts: LogReplay, entries: list[Entry]) -> None:
    if entries:
        batch = Batch(parts.clock.new_id(), entries, received_ms=parts.extent.last_ms)
        await parts.scratch.record(batch)


def _entry(parts: LogReplay, stored: StoredArrival) -> Entry | None:
    """Read an arrival again; None where its source is gone or today's code cannot read it."""
    source = parts.sources.get(stored.source)
    provider = None if source is None else providers.find(source.provider)
    if source is None or provider is None or stored.body is None:
        return None
    arrival = Arrival(
        method="POST",
        headers=orjson.loads(stored.headers),
        body=stored.body,
        now_ms=stored.received_ms,
    )
    try:
        parsed = provider.parse(arrival, source)
    except ParseError:
        return None
    suppress = suppress_in(parts.suppress, source.workspace)
    return entry_of(provider, source, arrival, parsed, new_id=parts.clock.new_id, suppress=suppress)


def _is_plain(
    element: tuple[bytes, int],
    candidate: Candidate,
    copied: Mapping[tuple[bytes, int], bytes | None],
    aside: _Aside,
) -> bool:
    """Say whether an element is an event of the log, or a copy of one under the same key."""
    if element in aside.elements:
        return False
    return copied.get(element, candidate.keys.key) == candidate.keys.key


def _fact_place(entry: Entry, candidate: Candidate) -> FactPlace:
    event = candidate.event
    return FactPlace(
        event.message_id, event.recipient, entry.workspace, entry.account, kind_of(event)
    )


def _as_received(candidate: Candidate, received_ms: int) -> Candidate:
    """Judge an event's time by when it was received, not by when the whole batch was."""
    occurred_ms = candidate.event.occurred_ms
    if occurred_ms is None or occurred_ms <= received_ms + AHEAD_MS_MAX:
        return candidate
    return replace(candidate, event=replace(candidate.event, occurred_ms=None))


async def _set_aside(
    parts: LogReplay, stored: StoredArrival, aside: _Aside, report: ReplayReport
) -> None:
    """Leave out an arrival that is read differently today, with all its effects."""
    logged = await parts.log.read(lambda tx: events.of_arrival(tx, stored.workspace, stored.id))
    many = sum([_leave_out(parts, row, aside) for row in logged])
    report.aside["event whose source was deleted, or which is read differently today"] += many


async def _set_mail_aside(parts: LogReplay, aside: _Aside, report: ReplayReport) -> None:
    """Leave out what reading mail made: mail lies in its inboxes, not in the log."""
    rows = _rows(parts.log, events.without_arrival, lambda row: LogPosition(row.day, row.id))
    async for row in rows:
        if row.received_ms <= parts.extent.last_ms and _leave_out(parts, row, aside):
            report.aside["event of a mail in an inbox"] += 1


def _leave_out(parts: LogReplay, row: LoggedEvent, aside: _Aside) -> bool:
    """Set an event aside with all its effects; say whether it was not before."""
    if row.id in aside.events:
        return False
    aside.events.add(row.id)
    aside.facts |= {
        FactPlace(row.message_id, row.recipient, row.workspace, row.account, kind) for kind in Kind
    }
    if row.conflict_with is None:
        account = _account(parts, row.source)
        aside.counts[CountPlace(row.workspace, account, row.type)] += 1
    return True


async def _compare_facts(parts: LogReplay, aside: _Aside, report: ReplayReport) -> None:
    since_ms = parts.extent.first_day * DAY_MS
    live = _facts(parts.log)
    replayed = _facts(parts.scratch)
    async for place, mine, other in _side_by_side(live, replayed, lambda row: row.place):
        if mine is not None and mine.changed_ms > parts.extent.last_ms:
            report.aside["fact still changing"] += 1
        elif place in aside.facts:
            report.aside["fact of which a part was set aside"] += 1
        elif (
            parts.extent.pruned
            and mine is not None
            and comparison.may_be_older(mine.fact, since_ms=since_ms)
        ):
            report.aside["fact older than the log"] += 1
        else:
            difference = comparison.differ_fact(place, mine and mine.fact, other and other.fact)
            report.note("facts", difference)


async def _compare_suppressions(parts: LogReplay, aside: _Aside, report: ReplayReport) -> None:
    since_ms = parts.extent.first_day * DAY_MS

    def is_comparable(row: StoredStatement) -> bool:
        older = parts.extent.pruned and not row.logged and minted_ms(row.event) < since_ms
        if older or row.event in aside.events or row.said_ms > parts.extent.last_ms:
            report.aside["suppression of which a part was set aside"] += 1
            return False
        return True

    live = _registers(parts.log, is_comparable)
    replayed = _registers(parts.scratch, lambda _: True)
    async for register, mine, other in _side_by_side(live, replayed, lambda row: row[0]):
        says = mine[1] if mine is not None else Counter[ComparedStatement]()
        again = other[1] if other is not None else Counter[ComparedStatement]()
        if says or again:
            report.note("suppressions", comparison.differ_suppression(register, says, again))


async def _compare_counts(parts: LogReplay, aside: _Aside, report: ReplayReport) -> None:
    extent = parts.extent
    live = await parts.log.read(
        partial(effects.counts, since_day=extent.first_day, until_ms=extent.last_ms)
    )
    replayed = await parts.scratch.read(
        partial(effects.counts, since_day=0, until_ms=extent.last_ms)
    )
    mine, other = _by_account(parts, live), _by_account(parts, replayed)
    mine.subtract(aside.counts)
    report.compared["counts"] += len({*mine, *other})
    report.differences += comparison.differ_counts(mine, other)


def _by_account(parts: LogReplay, rows: Sequence[CountRow]) -> Counter[CountPlace]:
    sums: Counter[CountPlace] = Counter()
    for row in rows:
        sums[CountPlace(row.workspace, _account(parts, row.source), row.type)] += row.times
    return sums


def _account(parts: LogReplay, source_id: str) -> str:
    """Name the account of a source; a deleted one counts as its own account."""
    source = parts.sources.get(source_id)
    return source_id if source is None else providers.account_of(source)


async def _rows(
    log: Log, page: Callable[..., list[T]], place_of: Callable[[T], object]
) -> AsyncIterator[T]:
    """Read all rows, a page after the other."""
    after: object = None
    while True:
        rows = await log.read(partial(page, after=after, limit=PAGE_ROWS))
        for row in rows:
            yield row
        if len(rows) < PAGE_ROWS:
            return
        after = place_of(rows[-1])


def _facts(log: Log) -> AsyncIterator[StoredFact]:
    return _rows(log, effects.facts_page, lambda row: row.place)


async def _registers(
    log: Log, is_comparable: Callable[[StoredStatement], bool]
) -> AsyncIterator[tuple[SuppressionPlace, Counter[ComparedStatement]]]:
    """Gather statements by register; ids differ between databases, stamps do not."""
    register: SuppressionPlace | None = None
    says: Counter[ComparedStatement] = Counter()
    rows = _rows(log, effects.suppressions_page, lambda row: (row.register, row.event))
    async for row in rows:
        if register is not None and row.register != register:
            yield register, says
            says = Counter()
        register = row.register
        if is_comparable(row):
            says[ComparedStatement(row.lifts, row.stamp)] += 1
    if register is not None:
        yield register, says


K = TypeVar("K", FactPlace, SuppressionPlace)


async def _side_by_side(
    one: AsyncIterator[T], other: AsyncIterator[T], key: Callable[[T], K]
) -> AsyncIterator[tuple[K, T | None, T | None]]:
    """Walk two sorted streams together, and give what both have under each key."""
    left, right = await anext(one, None), await anext(other, None)
    while left is not None or right is not None:
        keys = [key(row) for row in (left, right) if row is not None]
        least = min(keys)
        mine = left if left is not None and key(left) == least else None
        theirs = right if right is not None and key(right) == least else None
        yield least, mine, theirs
        if mine is not None:
            left = await anext(one, None)
        if theirs is not None:
            right = await anext(other, None)
