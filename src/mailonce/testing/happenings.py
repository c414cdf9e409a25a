"""Make happenings: what happens to messages, the same for the same random numbers."""

from itertools import count
from random import Random

from mailonce.core.events.event import EventType
from mailonce.testing.sign import number_of
from mailonce.testing.simulator import HONEST_DOMAIN, Happening, Simulator

# What may happen to one message; each type at most once, so that it can be known by its type.
STORIES = (
    (EventType.DELIVERED,),
    (EventType.DELIVERED, EventType.OPENED),
    (EventType.DELIVERED, EventType.OPENED, EventType.CLICKED),
    (EventType.DEFERRED, EventType.DELIVERED, EventType.OPENED),
    (EventType.DEFERRED, EventType.BOUNCED),
    (EventType.BOUNCED,),
    (EventType.DELIVERED, EventType.OPENED, EventType.COMPLAINED),
    (EventType.INBOUND,),
)


# How long before its end the first messages of a storm were sent, and the last.
SPREAD_S = 7200
LAST_S = 600


def make_happenings(
    simulator: Simulator,
    name: str,
    events: int,
    rng: Random,
    *,
    now_s: int,
    spread_s: int = SPREAD_S,
) -> list[Happening]:
    """Make `events` happenings of messages named after `name`, of types that the simulator has.

    The messages were sent within `spread_s` before `now_s`.
    """
    types = simulator.types
    # Inbound mail is no part of a sent message's story: only simulators of inbound mail have it.
    tellable = [kind for kind in types if kind is not EventType.INBOUND] or types
    stories = [tuple(type_ for type_ in story if type_ in tellable) for story in STORIES]
    stories = [story for story in stories if story]
    assert stories, f"{name} has no type of event that happens"
    happened: list[Happening] = []
    for number in count():
        message_id = f"{name}-{number:05}"
        if simulator.numbers_messages:
            message_id = str(number_of(message_id))
        recipient = f"person{rng.randrange(max(events, 1))}@{HONEST_DOMAIN}"
        sent_s = now_s - rng.randrange(LAST_S, spread_s)
        for step, type_ in enumerate(rng.choice(stories)):
            if len(happened) == events:
                return happened
            id_ = f"{message_id}-{type_.value}"
            happened.append(Happening(id_, type_, message_id, recipient, sent_s + 60 * step))
    raise AssertionError("the numbers do not end")
