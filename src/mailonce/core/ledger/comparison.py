"""Compare the effects of the same events in two ledgers, recorded in different orders. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mailonce.core.events.facts import AHEAD_MS_MAX, Fact, Kind, Stamp, stamp_ms
from mailonce.core.moment import moment

NOTHING = "nothing"
YEAR_10000_MS = 253_402_300_800_000


class FactPlace(NamedTuple):
    """The key of a fact, in the order in which both databases keep it."""

    message_id: str
    recipient: str
    workspace: str
    account: str
    kind: Kind


class SuppressionPlace(NamedTuple):
    """The key of the statements about an address."""

    workspace: str
    address: str
    stream: str
    cause: str


class CountPlace(NamedTuple):
    """What is counted. Sources of one account collapse copies, so the account is what counts."""

    workspace: str
    account: str
    type: str


class ComparedStatement(NamedTuple):
    """One event's statement about an address; its stamp names the event, whatever its id."""

    lifts: bool
    stamp: Stamp | None


@dataclass(frozen=True, slots=True)
class Difference:
    """An effect that comes out differently when the same events are recorded in another order."""

    what: str
    where: str
    live: str
    replayed: str


def differ_fact(place: FactPlace, live: Fact | None, replayed: Fact | None) -> Difference | None:
    if live == replayed:
        return None
    where = f"{place.message_id} {place.recipient} {place.kind.name.lower()}"
    return Difference("fact", where, _fact(live), _fact(replayed))


def differ_suppression(
    register: SuppressionPlace,
    live: Counter[ComparedStatement],
    replayed: Counter[ComparedStatement],
) -> Difference | None:
    if live == replayed:
        return None
    where = f"{register.address} {register.cause}"
    return Difference("suppression", where, _text_of(live - replayed), _text_of(replayed - live))


def differ_counts(
    live: Mapping[CountPlace, int], replayed: Mapping[CountPlace, int]
) -> list[Difference]:
    return [
        Difference(
            "count",
            f"{place.account} {place.type}",
            f"{live.get(place, 0):,}",
            f"{replayed.get(place, 0):,}",
        )
        for place in sorted({*live, *replayed})
        if live.get(place, 0) != replayed.get(place, 0)
    ]


def may_be_older(fact: Fact, *, since_ms: int) -> bool:
    """Say whether a fact may rest on events from before `since_ms`, the start of a pruned log.

    A believed time is at most a day ahead of its receipt, so a first stamp later than that was
    received within the log.
    """
    return fact.first is None or stamp_ms(fact.first) <= since_ms + AHEAD_MS_MAX


def _fact(fact: Fact | None) -> str:
    if fact is None:
        return NOTHING
    until = "" if fact.last == fact.first else f" to {_moment(fact.last)}"
    return f"{fact.count}x at {_moment(fact.first)}{until}"


def _text_of(says: Counter[ComparedStatement]) -> str:
    words = [
        f"{'lifted' if say.lifts else 'suppressed'} at {_moment(say.stamp)}"
        for say in sorted(says, key=lambda say: (say.lifts, say.stamp or b""))
    ]
    return ", ".join(words) or NOTHING


def _moment(stamp: Stamp | None) -> str:
    if stamp is None:
        return "no time"
    ms = stamp_ms(stamp)
    # What is stored may be anything: a stamp that was tampered with must still be shown.
    time = (moment(ms) or "")[:19] if ms < YEAR_10000_MS else "no possible time"
    # The event's key tells apart what happened at the same time.
    return f"{time} #{stamp[8:11].hex()}"
