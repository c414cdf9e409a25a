"""What the databases make of batches equals what the pure rules make of the events."""

import asyncio
from collections import Counter
from itertools import count
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import Connection, select, update

from mailonce.core.arrivals.source import Source
from mailonce.core.events.facts import Fact, Kind, Stamp, join, kind_of, stamp_of
from mailonce.core.events.key import conflict_key
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, EntryOutcome, Status
from mailonce.store.dialects.contract import Batch, Database
from mailonce.store.dialects.guess_new_keys import Guess
from mailonce.store.ledger import dead_letters
from mailonce.store.schema.tables import (
    ARRIVALS,
    COPIES,
    COUNTS,
    DEAD_LETTERS,
    EVENTS,
    FACTS,
    HEAD,
    SUPPRESSIONS,
)
from tests.factories import Ledger, make_body, make_dead, make_entry, make_source, new_id

_workspaces = count(1)

Place = tuple[str, str, Kind]

bodies = st.builds(
    make_body,
    st.integers(1, 12),
    type=st.sampled_from(["sent", "deferred", "delivered", "bounced", "opened", "complained"]),
    message_id=st.sampled_from(["m-1", "m-2"]),
    recipient=st.sampled_from(["ada@example.com", "bob@example.com", None]),
    bounce_type=st.sampled_from(["hard", "soft"]),
    # Missing, long ago, and further ahead than is believed.
    timestamp=st.sampled_from([None, 0, 1_767_225_600, 1_767_225_601, 4_000_000_000]),
)
batches = st.lists(st.lists(bodies, max_size=6), min_size=1, max_size=4)

# Each example has a workspace of its own in the one database of the test.
on_one_database = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def next_source() -> Source:
    workspace = f"w{next(_workspaces)}"
    return make_source(workspace=workspace, id=f"src_{workspace}")


def fold(entries: list[Entry], received_ms: int) -> dict[Place, Fact]:
    """Join the facts of the first event of each key and, uncounted, of other content under it."""
    seen: dict[bytes, set[bytes]] = {}
    facts: dict[Place, Fact] = {}
    for entry in entries:
        for candidate in entry.events:
            event, keys = candidate.event, candidate.keys
            contents = seen.setdefault(keys.key, set())
            if keys.fingerprint in contents:
                continue
            first = not contents
            contents.add(keys.fingerprint)
            key = keys.key if first else conflict_key(keys.key, keys.fingerprint)
            stamp = stamp_of(event.occurred_ms, key, received_ms=received_ms)
            place = (event.message_id, event.recipient, kind_of(event))
            fact = Fact(int(first), stamp, stamp)
            facts[place] = join(facts[place], fact) if place in facts else fact
    return facts


def facts_in(tx: Connection, workspace: str) -> dict[Place, Fact]:
    rows = tx.execute(select(FACTS).where(FACTS.c.workspace == workspace)).mappings()
    return {
        (row["message_id"], row["recipient"], Kind(row["kind"])): Fact(
            row["count"], _stamp(row["first"]), _stamp(row["last"])
        )
        for row in rows
    }


def _stamp(value: bytes | None) -> Stamp | None:
    return None if value is None else Stamp(bytes(value))


def times_of(facts: dict[Place, Fact]) -> dict[Any, Any]:
    """Leave out the key's part of the stamps: keys of two workspaces differ."""
    return {
        place: (fact.count, fact.first and fact.first[:8], fact.last and fact.last[:8])
        for place, fact in facts.items()
    }


@on_one_database
@given(batches)
async def test_the_databases_join_facts_as_the_pure_fold_does(
    ledger: Ledger, some: list[list[bytes]]
) -> None:
    source = next_source()
    recorded = [
        [make_entry(source, body, now_ms=ledger.now_ms) for body in batch] for batch in some
    ]

    for entries in recorded:
        await ledger.record(*entries)

    expected = fold([entry for entries in recorded for entry in entries], ledger.now_ms)
    facts = await ledger.database.read(lambda tx: facts_in(tx, source.workspace))
    assert facts == expected


def state_of(tx: Connection, workspace: str) -> tuple[Any, ...]:
    """All effects, in words that do not depend on which copy came first."""
    events = tx.execute(
        select(EVENTS.c.type, EVENTS.c.message_id, EVENTS.c.recipient, EVENTS.c.occurred_ms).where(
            EVENTS.c.workspace == workspace
        )
    )
    rows = tx.execute(
        select(SUPPRESSIONS.c.address, SUPPRESSIONS.c.cause, SUPPRESSIONS.c.stamp).where(
            SUPPRESSIONS.c.workspace == workspace
        )
    )
    counts: Counter[str] = Counter()
    for type_, number in tx.execute(
        select(COUNTS.c.type, COUNTS.c.count).where(COUNTS.c.workspace == workspace)
    ):
        counts[type_] += number
    facts = times_of(facts_in(tx, workspace))
    stamped = Counter((row[0], row[1], row[2] and bytes(row[2])[:8]) for row in rows)
    return Counter(map(tuple, events)), stamped, counts, facts


async def record_unasked(ledger: Ledger, source: Source, some: list[bytes]) -> list[EntryOutcome]:
    """Record a batch as a process does that was just started: it remembers no key, and guesses."""
    ledger.database._guess = Guess()  # type: ignore[attr-defined]
    entries = [make_entry(source, body, now_ms=ledger.now_ms) for body in some]
    return await ledger.database.record(Batch(new_id(ledger.now_ms), entries))


distinct = st.lists(bodies, max_size=8, unique_by=lambda body: orjson.loads(body)["id"])


@on_one_database
@given(distinct, st.randoms(use_true_random=False))
async def test_order_batching_and_copies_vanish(
    ledger: Ledger, some: list[bytes], dice: Any
) -> None:
    straight, shuffled = next_source(), next_source()
    copies = [body for body in some for _ in range(dice.randint(1, 3))]
    dice.shuffle(copies)

    await ledger.tell(straight, some)
    while copies:
        size = dice.randint(1, len(copies))
        batch, copies = copies[:size], copies[size:]
        await record_unasked(ledger, shuffled, batch)

    one = await ledger.database.read(lambda tx: state_of(tx, straight.workspace))
    other = await ledger.database.read(lambda tx: state_of(tx, shuffled.workspace))
    assert one == other


async def test_of_twenty_copies_at_once_one_is_first(ledger: Ledger) -> None:
    source = make_source()

    answers = await asyncio.gather(*(ledger.tell(source, [make_body(1)]) for _ in range(20)))

    statuses = Counter(answer.status for [answer] in answers if isinstance(answer, ArrivalOutcome))
    assert statuses == {Status.ACCEPTED: 1, Status.DUPLICATE: 19}


async def test_what_was_guessed_to_be_new_is_judged_by_its_owners(
    database: Database, ledger: Ledger
) -> None:
    source = make_source()
    await ledger.tell(source, [make_body(1), make_body(2)])
    told = [make_body(3), make_body(2), make_body(1, message_id="other")]
    statuses: list[list[Status]] = []
    due = update(HEAD).values(rotated_ms=1)
    await database.write(lambda tx: tx.execute(due) and None)

    for is_older in (False, True):
        if is_older:
            assert await database.rotate(window_ms=0)
        answers = await record_unasked(ledger, source, told)
        statuses.append([one.status for one in answers if isinstance(one, ArrivalOutcome)])

    copy, conflict = Status.DUPLICATE, Status.CONFLICT
    assert statuses == [[Status.ACCEPTED, copy, conflict], [copy, copy, conflict]]
    events = await database.read(lambda tx: tx.execute(select(EVENTS.c.id)).all())
    # The other content is signed, and an event of its own.
    assert len(events) == 4


async def test_each_arrival_is_kept_whether_its_first_event_is_new_or_none_is(
    database: Database, ledger: Ledger
) -> None:
    source = make_source()
    one, copy, again, two, three, nothing = [
        make_entry(source, make_body(number), now_ms=ledger.now_ms) for number in (1, 1, 1, 2, 3, 4)
    ]
    many = replace(two, events=(*again.events, *two.events, *three.events))
    nothing = replace(nothing, events=())
    batch = Batch(new_id(ledger.now_ms), [copy, nothing, many, one])
    kept: list[dict[bytes, tuple[Any, ...]]] = []

    # Run again, it finds its own rows.
    for _ in range(2):
        await database.record(batch)
        kept.append(await database.read(arrivals_in))

    known = {
        entry.id: ("default", source.id, entry.arrival_key, b"{}", len(entry.body))
        for entry in batch.entries
    }
    assert kept[0] == {
        copy.id: (*known[copy.id], "accepted", 1, 1, copy.body),
        nothing.id: (*known[nothing.id], "ignored", 0, 0, None),
        many.id: (*known[many.id], "accepted", 3, 2, many.body),
        one.id: (*known[one.id], "duplicate", 1, 0, None),
    }
    assert kept[1] == kept[0]


def arrivals_in(tx: Connection) -> dict[bytes, tuple[Any, ...]]:
    names = "id workspace source arrival_key headers body_bytes status events new body"
    rows = tx.execute(select(*[ARRIVALS.c[name] for name in names.split()]))
    return {row[0]: tuple(row[1:]) for row in rows}


async def test_a_batch_that_is_run_again_changes_nothing_and_answers_the_same(
    database: Database, ledger: Ledger
) -> None:
    source = make_source()
    entries = [
        make_entry(source, body, now_ms=ledger.now_ms)
        for body in (make_body(1), make_body(1), make_body(2, type="bounced", bounce_type="hard"))
    ]
    batch = Batch(new_id(ledger.now_ms), entries)

    first = await database.record(batch)
    before = await database.read(lambda tx: state_of(tx, "default"))
    second = await database.record(batch)

    assert first == second
    assert await database.read(lambda tx: state_of(tx, "default")) == before
    copies = await database.read(lambda tx: tx.execute(select(COPIES)).all())
    assert len(copies) == 1


async def test_a_batch_that_is_run_again_counts_no_attempt_of_a_dead_letter_twice(
    database: Database, ledger: Ledger
) -> None:
    def copy() -> Entry:
        dead = make_dead(new_id(ledger.now_ms), "not JSON", b"{")
        return make_entry(make_source(), b"{", now_ms=ledger.now_ms, dead=(dead,))

    await ledger.record(copy())
    batch = Batch(new_id(ledger.now_ms), [copy(), copy()])

    answers = [await database.record(batch) for _ in range(2)]

    assert [[str(one.status) for one in some] for some in answers] == [["duplicate"] * 2] * 2  # type: ignore[union-attr]
    letters = await database.read(lambda tx: tx.execute(select(DEAD_LETTERS.c.attempts)).all())
    assert [row[0] for row in letters] == [3]


async def test_a_letter_of_an_older_version_is_completed_from_its_arrival(
    database: Database, ledger: Ledger
) -> None:
    body = b"{" + b" " * (dead_letters.CUT_BYTES + 5)
    dead = make_dead(new_id(ledger.now_ms), "not JSON", body[: dead_letters.CUT_BYTES])
    entry = make_entry(make_source(), body, now_ms=ledger.now_ms, dead=(dead,))
    await ledger.record(entry)

    def as_before(tx: Connection) -> dead_letters.DeadLetter | None:
        tx.execute(update(DEAD_LETTERS).values(headers=None))
        tx.execute(update(ARRIVALS).values(body=body, headers=b'{"content-type":"a/b"}'))
        letter = dead_letters.get(tx, "default", dead.id)
        return letter and dead_letters.whole(tx, letter)

    letter = await database.write(as_before)

    assert letter is not None
    assert (letter.raw, letter.headers) == (body, b'{"content-type":"a/b"}')


async def test_a_batch_that_is_run_again_in_parts_changes_nothing_either(
    database: Database, ledger: Ledger
) -> None:
    source = make_source()
    entries = [make_entry(source, make_body(one), now_ms=ledger.now_ms) for one in range(4)]
    first = await database.record(Batch(new_id(ledger.now_ms), entries))
    before = await database.read(lambda tx: state_of(tx, "default"))

    parts = [Batch(new_id(ledger.now_ms), part) for part in (entries[:2], entries[2:])]
    again = [answer for part in parts for answer in await database.record(part)]

    assert again == first
    assert await database.read(lambda tx: state_of(tx, "default")) == before
    kept = await database.read(lambda tx: tx.execute(select(ARRIVALS.c.id)).all())
    assert len(kept) == 4
