"""Let things happen to messages, as they do: the same things for the same dice."""

from itertools import count
from random import Random

from mailonce.core.event import EventType
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


def happen(
    simulator: Simulator, name: str, events: int, rng: Random, *, now_s: int
) -> list[Happening]:
    """Let `events` things happen to messages named after `name`, such as the simulator can tell."""
    types = simulator.types
    # Inbound mail is no part of a sent message's story: it is told by those who tell nothing else.
    tellable = [kind for kind in types if kind is not EventType.INBOUND] or types
    stories = [tuple(type_ for type_ in story if type_ in tellable) for story in STORIES]
    stories = [story for story in stories if story]
    assert stories, f"{name} can tell nothing that happens"
    happened: list[Happening] = []
    for number in count():
        message_id = f"{name}-{number:05}"
        if simulator.numbers_messages:
            message_id = str(number_of(message_id))
        recipient = f"person{rng.randrange(max(events, 1))}@{HONEST_DOMAIN}"
        sent_s = now_s - rng.randrange(600, 7200)
        for step, type_ in enumerate(rng.choice(stories)):
            if len(happened) == events:
                return happened
            id_ = f"{message_id}-{type_.value}"
            happened.append(Happening(id_, type_, message_id, recipient, sent_s + 60 * step))
    raise AssertionError("the numbers do not end")
