"""Compare the happenings of a load with the effects that the API shows. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Happening


class Effect(NamedTuple):
    """The effect that one happening should have once."""

    message_id: str
    recipient: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEffects:
    """What the API shows of one source: its log, its counts, and its messages."""

    events: Sequence[Any]
    stats: Sequence[Any]
    messages: Sequence[Any]


@dataclass(frozen=True, slots=True)
class EffectComparison:
    """How many effects are shown, how many are missing, and how many are too many."""

    effects: int
    lost: int
    doubled: int


def compare_effects(happened: Iterable[Happening], shown: ShownEffects) -> EffectComparison:
    """Compare. Lost is what any of the three does not show; doubled is what any shows too often.

    Whatever is shown and never happened counts as doubled, too: a forgery that was let in.
    """
    expected = {Effect(one.message_id, one.recipient, one.type.value) for one in happened}
    listed = Counter(
        Effect(one["message_id"] or "", one["recipient"] or "", one["type"]) for one in shown.events
    )
    known = _known_of_messages(shown.messages)
    counted: Counter[str] = Counter()
    for row in shown.stats:
        counted[row["type"]] += row["count"]
    lost = doubled = 0
    for word in EventType:
        wanted = {one for one in expected if one.type == word}
        seen = {one for one in (*listed, *known) if one.type == word}
        missing = {one for one in wanted if not listed[one] or not known[one]}
        extra = sum(max(listed[one], known[one]) - (one in wanted) for one in seen)
        lost += max(len(missing), len(wanted) - counted[word])
        doubled += max(extra, counted[word] - len(wanted))
    return EffectComparison(listed.total(), lost, doubled)


def _known_of_messages(messages: Iterable[Any]) -> Counter[Effect]:
    known: Counter[Effect] = Counter()
    for message in messages:
        for recipient in message["recipients"]:
            for word, times in recipient["counts"].items():
                known[Effect(message["message_id"], recipient["recipient"], word)] += times
    return known
