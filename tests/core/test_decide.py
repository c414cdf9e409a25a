"""The decision of the ledger, without a database: who is first, a copy, a conflict."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Identity, Key, Recipe
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.decide import AskAlso, decide, keys_of_entries
from mailonce.core.ledger.entry import (
    ArrivalOutcome,
    ConflictRow,
    Entry,
    EventRow,
    StatementRow,
    Status,
)
from mailonce.pipeline.parse import entry_of
from tests.factories import new_id

NOW_MS = 1_794_000_000_000


class Memory:
    """What a database keeps of decisions: claims, events, conflicts, counts, suppressed."""

    def __init__(self) -> None:
        self.owners: dict[Key, ClaimRow] = {}
        self.events: list[EventRow] = []
        self.conflicts: list[ConflictRow] = []
        self.suppressed: set[str] = set()

    def record(self, *entries: Entry) -> list[Status]:
        owners: dict[Key, ClaimRow | None] = {
            key: self.owners.get(key) for key in keys_of_entries(entries)
        }
        decision = decide(entries, owners, received_ms=NOW_MS)
        while isinstance(decision, AskAlso):
            owners |= {key: self.owners.get(key) for key in decision.keys}
            decision = decide(entries, owners, received_ms=NOW_MS)
        rows = decision.rows
        for row in rows.of(ClaimRow):
            assert row.key not in self.owners, "a taken key is claimed again"
            self.owners[row.key] = row
        assert all(self.owners[row.key].owner == row.id for row in rows.of(EventRow))
        self.events += rows.of(EventRow)
        self.conflicts += rows.of(ConflictRow)
        self.suppressed |= {row.address for row in rows.of(StatementRow)}
        return [
            a.status if isinstance(a, ArrivalOutcome) else Status.IGNORED for a in decision.answers
        ]

    @property
    def effects(self) -> Any:
        """What happened, in words that do not name which copy came first."""
        return Counter((row.type, row.message_id, row.recipient) for row in self.events)


def _entry(
    name: str,
    body: Any,
    *,
    headers: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Entry:
    provider = providers.find(name)
    assert provider is not None
    source = Source(
        id=f"src_{name}",
        workspace="default",
        name=name,
        provider=name,
        account="main",
        options=options or {},
    )
    arrival = Arrival(method="POST", headers=headers or {}, body=orjson.dumps(body), now_ms=NOW_MS)
    parsed = provider.parse(arrival, source)
    return entry_of(provider, source, arrival, parsed, new_id=lambda: new_id(NOW_MS))


def _sendgrid(id_: str, email: str, event: str = "delivered", **more: Any) -> Entry:
    element = {"timestamp": 1_793_000_000, "sg_message_id": "m1", "email": email, "event": event}
    return _entry("sendgrid", [{**element, "sg_event_id": id_, **more}])


def _sesmetric(id_: str, link: str) -> Entry:
    payload = {
        "eventId": id_,
        "sm_mail_id": "s1",
        "messageId": "m1",
        "recipients": ["ann@example.net"],
        "eventTimestamp": "2026-11-01T10:00:00Z",
        "link": link,
    }
    return _entry("sesmetric", {"event_type": "click", "payload": payload})


def _smtp2go(id_: str, rcpt: str, event: str = "delivered") -> Entry:
    fields = {"event": event, "email_id": "m1", "rcpt": rcpt, "time": "2026-11-01T10:00:00Z"}
    return _entry("smtp2go", {**fields, "id": id_}, options={"id_names_event": True})


def _mailonce(delivery: str | None, identity: str, recipient: str) -> Entry:
    body = {"type": "complained", "message_id": "m1", "recipient": recipient, "identity": identity}
    headers = {} if delivery is None else {"webhook-id": delivery}
    return _entry("mailonce", body, headers=headers)


# Two events that a provider sent under one id of its own; whether its signature covers the body.
UNDER_ONE_ID: dict[str, tuple[Callable[[], Entry], Callable[[], Entry]]] = {
    "sendgrid": (
        lambda: _sendgrid("E1", "ann@example.net"),
        lambda: _sendgrid("E1", "bob@example.net", "spamreport"),
    ),
    "sendgrid without a message": (
        lambda: _entry("sendgrid", [{"sg_event_id": "E1", "event": "account", "type": "a"}]),
        lambda: _entry("sendgrid", [{"sg_event_id": "E1", "event": "account", "type": "b"}]),
    ),
    "sesmetric": (lambda: _sesmetric("E1", "https://a/"), lambda: _sesmetric("E1", "https://b/")),
    "smtp2go": (
        lambda: _smtp2go("E1", "ann@example.net"),
        lambda: _smtp2go("E1", "bob@example.net", "spam"),
    ),
    "mailonce": (
        lambda: _mailonce("d1", "I1", "ann@example.net"),
        lambda: _mailonce("d2", "I1", "bob@example.net"),
    ),
    "mailonce without a delivery id": (
        lambda: _mailonce(None, "I1", "ann@example.net"),
        lambda: _mailonce(None, "I1", "bob@example.net"),
    ),
}


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one after the other"])
@pytest.mark.parametrize("name", UNDER_ONE_ID)
def test_another_event_under_the_same_provider_id_is_never_dropped(
    name: str, *, together: bool
) -> None:
    memory = Memory()
    one, other = (make() for make in UNDER_ONE_ID[name])

    if together:
        statuses = memory.record(one, other)
    else:
        statuses = [*memory.record(one), *memory.record(other)]

    assert statuses == [Status.ACCEPTED, Status.CONFLICT]
    assert len(memory.conflicts) == 1
    # What nothing signs is kept and shown, and changes nothing.
    assert len(memory.events) == (2 if one.signs_body else 1)


@pytest.mark.parametrize("name", UNDER_ONE_ID)
def test_copies_of_both_events_under_one_id_change_nothing_more(name: str) -> None:
    memory = Memory()
    make_one, make_other = UNDER_ONE_ID[name]
    memory.record(make_one(), make_other())
    before = (memory.effects, len(memory.conflicts))

    for make in (make_other, make_one, make_other):
        assert memory.record(make())[0] in {Status.DUPLICATE, Status.CONFLICT}

    assert (memory.effects, len(memory.conflicts)) == before


def test_an_event_whose_id_was_used_before_suppresses_all_the_same() -> None:
    memory = Memory()
    memory.record(_sendgrid("E1", "ann@example.net"))

    memory.record(_sendgrid("E1", "bob@example.net", "spamreport"))

    assert memory.suppressed == {"bob@example.net"}


def test_a_copy_under_a_fresh_id_of_an_event_whose_id_was_used_before_is_a_copy() -> None:
    memory = Memory()
    memory.record(_sendgrid("E1", "ann@example.net"))
    memory.record(_sendgrid("E1", "bob@example.net", "spamreport"))

    statuses = memory.record(_sendgrid("E9", "bob@example.net", "spamreport"))

    assert statuses == [Status.DUPLICATE]
    assert len(memory.events) == 2


def test_a_copy_whose_id_belongs_to_another_event_is_a_copy() -> None:
    memory = Memory()
    memory.record(_sendgrid("E1", "ann@example.net"), _sendgrid("E2", "bob@example.net"))

    statuses = memory.record(_sendgrid("E1", "bob@example.net"))

    assert statuses == [Status.DUPLICATE]
    assert (len(memory.events), memory.conflicts) == (2, [])


def test_two_routes_of_a_sender_bring_one_event() -> None:
    memory = Memory()

    statuses = memory.record(
        _mailonce("d1", "I1", "ann@example.net"),
        _mailonce("d2", "I1", "ann@example.net"),
        _mailonce(None, "I1", "ann@example.net"),
    )

    assert statuses == [Status.ACCEPTED, Status.DUPLICATE, Status.DUPLICATE]


def test_a_batch_that_stands_already_answers_as_it_did() -> None:
    memory = Memory()
    entries = [_sendgrid("E1", "ann@example.net"), _sendgrid("E1", "bob@example.net")]
    statuses = memory.record(*entries)
    before = memory.effects

    assert memory.record(*entries) == statuses
    assert memory.effects == before


sendgrid = st.builds(
    _sendgrid,
    st.sampled_from(["E1", "E2", "E3"]),
    st.sampled_from(["ann@example.net", "bob@example.net"]),
    st.sampled_from(["delivered", "spamreport", "bounce"]),
)


@given(st.lists(sendgrid, max_size=8), st.randoms(use_true_random=False))
def test_whatever_ids_are_shared_every_event_takes_effect_once(
    entries: list[Entry], dice: Any
) -> None:
    """The event's own fields tell it from others; its id only leads to it."""
    straight, shuffled = Memory(), Memory()
    straight.record(*entries)
    copies = [entry for entry in entries for _ in range(dice.randint(1, 3))]
    dice.shuffle(copies)

    while copies:
        size = dice.randint(1, len(copies))
        # Each copy is an arrival of its own.
        shuffled.record(*(_again(entry) for entry in copies[:size]))
        copies = copies[size:]

    event_keys = {entry.events[0].keys.key for entry in entries}
    assert len(straight.events) == len(event_keys)
    assert shuffled.effects == straight.effects
    assert shuffled.suppressed == straight.suppressed


def _again(entry: Entry) -> Entry:
    return _entry("sendgrid", orjson.loads(entry.body))


OLD = Recipe(name="thing", version=1, identity=("message",), content=("word",))
NEW = Recipe(
    name="thing", version=2, identity=("message", "address"), content=("word",), previous=OLD
)
_SOURCE = Source(
    id="src_things", workspace="default", name="things", provider="things", account="main"
)
_PROVIDER = Provider(
    name="things", title="Things", docs="https://things.test/", parse=lambda *_: Parsed()
)


def _thing(recipe: Recipe, address: str, word: str = "delivered") -> Entry:
    fields = {"message": "m1", "address": address, "word": word}
    event = Event(
        type=EventType.DELIVERED,
        identity=Identity(recipe, fields),
        message_id="m1",
        recipient=address,
        raw=fields,
    )
    arrival = Arrival(method="POST", headers={}, body=orjson.dumps(fields), now_ms=NOW_MS)
    return entry_of(
        _PROVIDER, _SOURCE, arrival, Parsed(events=(event,)), new_id=lambda: new_id(NOW_MS)
    )


class TestAChangedRecipe:
    """For one window after a change the old key is claimed as well."""

    @pytest.mark.parametrize("order", list(itertools.permutations([OLD, NEW])))
    def test_copies_meet_whichever_version_saw_the_first(self, order: Iterable[Recipe]) -> None:
        memory = Memory()

        statuses = [memory.record(_thing(recipe, "ann@example.net"))[0] for recipe in order]

        assert statuses == [Status.ACCEPTED, Status.DUPLICATE]

    def test_what_the_new_version_tells_apart_are_two_events(self) -> None:
        memory = Memory()

        statuses = [
            memory.record(_thing(NEW, address))[0]
            for address in ("ann@example.net", "bob@example.net") * 2
        ]

        assert statuses == [*[Status.ACCEPTED] * 2, *[Status.DUPLICATE] * 2]

    def test_an_event_of_the_old_version_stands_for_one_of_the_new(self) -> None:
        """The old version could not tell which of them it was; the next is another."""
        memory = Memory()
        memory.record(_thing(OLD, "ann@example.net"))

        statuses = [
            memory.record(_thing(NEW, address))[0]
            for address in ("ann@example.net", "bob@example.net") * 2
        ]

        assert statuses == [
            Status.DUPLICATE, Status.ACCEPTED, Status.DUPLICATE, Status.DUPLICATE
        ]  # fmt: skip

    def test_other_content_under_the_old_key_is_a_conflict(self) -> None:
        memory = Memory()
        memory.record(_thing(OLD, "ann@example.net"))

        assert memory.record(_thing(NEW, "ann@example.net", "bounced")) == [Status.CONFLICT]
        assert len(memory.events) == 2

    def test_a_version_that_compares_other_fields_knows_older_copies(self) -> None:
        memory = Memory()
        newer = Recipe(
            name="thing", version=3, identity=("message",), content=("address",), previous=OLD
        )
        memory.record(_thing(OLD, "ann@example.net"))

        assert memory.record(_thing(newer, "ann@example.net")) == [Status.DUPLICATE]
