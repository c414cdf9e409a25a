"""Plan a simulator's posts: which happenings together, how often, damaged or not. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random

from mailonce.errors import ConfigError
from mailonce.testing.happenings import LAST_S, SPREAD_S, make_happenings
from mailonce.testing.simulator import Happening, Simulator


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What to simulate. Shares are of 1; the same seed and time make the same plan."""

    events: int = 100
    # Copies for each event: half are in another post, half are the same post sent again.
    duplicates: float = 0.0
    shuffle: bool = False
    # Further posts, damaged on their way, for each post.
    corrupt: float = 0.0
    seed: str = "1"
    # Tells this storm from others of the same time.
    name: str = ""
    # Within how many seconds the messages were sent.
    spread_s: int = SPREAD_S

    def __post_init__(self) -> None:
        """See that a plan can be made. Raises: ConfigError."""
        for name, least in (("events", 0), ("spread_s", LAST_S + 1)):
            value = getattr(self, name)
            if not _is_number(value) or not isinstance(value, int) or value < least:
                raise ConfigError(
                    f"`{name}` is {value!r:.80}; write a whole number, {least} or more"
                )
        for name in ("duplicates", "corrupt"):
            value = getattr(self, name)
            if not _is_number(value) or value < 0:
                raise ConfigError(f"`{name}` is {value!r:.80}; write a number such as 0.3")


@dataclass(frozen=True, slots=True)
class Call:
    """One webhook of the provider: it is retried until an answer or its schedule ends it.

    A damaged one is sent once. It is a post of its own, signed before the damage; the same
    happenings are in another, undamaged post.
    """

    happenings: tuple[Happening, ...]
    damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The happenings, the calls that report them, and by number the order of the calls.

    A number that occurs twice is a call made twice.
    """

    happened: tuple[Happening, ...]
    calls: tuple[Call, ...]
    order: tuple[int, ...]


def make_plan(simulator: Simulator, options: PlanOptions, *, now_s: float) -> Plan:
    """Plan the calls for `options`: every event is posted undamaged at least once.

    `now_s` is when everything has happened; parts of a second do not count.
    Raises: ConfigError where it is no time.
    """
    if not _is_number(now_s) or now_s < 0:
        raise ConfigError(
            f"`now_s` of a plan is {now_s!r:.80}; write the time in seconds: now_s=time.time()"
        )
    now_s = int(now_s)
    rng = Random(f"{simulator.name}/{options.seed}")  # noqa: S311 - the same plan for the same seed
    # A later run is about other messages: else it would contradict the times of the first.
    name = f"{simulator.name}-{options.name}{now_s:x}"
    happened = make_happenings(
        simulator, name, options.events, rng, now_s=now_s, spread_s=options.spread_s
    )
    return plan_calls(happened, options, rng, batch_max=simulator.batch_max)


def plan_calls(
    happened: Sequence[Happening], options: PlanOptions, rng: Random, *, batch_max: int
) -> Plan:
    """Plan the calls that report these happenings, up to `batch_max` in one."""
    again = rng.choices(range(len(happened)), k=round(len(happened) * options.duplicates / 2))
    places = sorted([*range(len(happened)), *again])
    if options.shuffle:
        rng.shuffle(places)
    planned = [happened[place] for place in places]
    calls = [Call(tuple(some)) for some in batches(planned, batch_max, rng)]
    numbers = range(len(calls))
    repeated = rng.choices(numbers, k=round(len(calls) * options.duplicates / 2))
    harmed = rng.choices(numbers, k=round(len(calls) * options.corrupt))
    # Without shuffling each copy follows what it is a copy of.
    order = sorted(
        [(number, number) for number in (*numbers, *repeated)]
        + [(number, len(calls) + place) for place, number in enumerate(harmed)]
    )
    if options.shuffle:
        rng.shuffle(order)
    calls += [Call(calls[number].happenings, damaged=True) for number in harmed]
    return Plan(
        happened=tuple(happened),
        calls=tuple(calls),
        order=tuple(number for _, number in order),
    )


def batches(events: Sequence[Happening], most: int, rng: Random) -> Iterator[Sequence[Happening]]:
    """Split events into posts of 1 to `most`."""
    start = 0
    while start < len(events):
        size = rng.randint(1, most)
        yield events[start : start + size]
        start += size


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
