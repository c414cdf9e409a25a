"""A load: every event many times, in any order, between forgeries; the same for the same seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mailonce.testing.happenings import make_happenings
from mailonce.testing.plan import batches
from mailonce.testing.simulator import Happening, Post, Simulator

# How often one event is sent: most a few times, some until the provider gives up.
TIMES = (1, 2, 5, 8, 13, 20)
# Share of posts that must be refused, and of copies that are signed anew.
BAD_SHARE = 0.06
RESIGNED_SHARE = 0.3
# Older than any provider's signature may be.
STALE_S = 26 * 3600
# The share of events that each provider of the demo has; others share evenly.
SHARES = {"sendgrid": 0.4, "ses": 0.15, "mailgun": 0.15, "postmark": 0.15, "sesmetric": 0.15}


@dataclass(frozen=True, slots=True)
class LoadPost:
    """One post to one provider's source; `honest` where it must be accepted."""

    provider: str
    post: Post
    honest: bool = True


@dataclass(frozen=True, slots=True)
class Load:
    """The happenings, by provider, and all the posts that report them, in the order to send."""

    happenings: Mapping[str, Sequence[Happening]]
    shots: Sequence[LoadPost]


def make_load(simulators: Mapping[str, Simulator], *, events: int, seed: int, now_s: int) -> Load:
    """Make `events` distinct events, about six posts for each, shuffled."""
    rng = Random(seed)  # noqa: S311 - the same load for the same seed, nothing secret
    happenings: dict[str, Sequence[Happening]] = {}
    shots: list[LoadPost] = []
    left = events
    even = 1 / len(simulators)
    shares = SHARES if simulators.keys() == SHARES.keys() else {}
    for index, (name, simulator) in enumerate(simulators.items()):
        last = index == len(simulators) - 1
        wanted = left if last else min(left, round(events * shares.get(name, even)))
        left -= wanted
        happened = make_happenings(simulator, name, wanted, rng, now_s=now_s)
        happenings[name] = happened
        posts = _posts_of(simulator, happened, rng, now_s)
        shots += [LoadPost(name, post) for post in posts]
        bad = range(int(len(posts) * BAD_SHARE))
        shots += [LoadPost(name, _bad(simulator, happened, rng, now_s), honest=False) for _ in bad]
    rng.shuffle(shots)
    return Load(happenings, shots)


def _posts_of(
    simulator: Simulator, happened: Sequence[Happening], rng: Random, now_s: int
) -> list[Post]:
    """Post each event once or many times, some copies signed anew."""
    copies = [happening for happening in happened for _ in range(rng.choice(TIMES))]
    if simulator.batch_max > 1:
        rng.shuffle(copies)
        arrays = list(batches(copies, simulator.batch_max, rng))
        return [simulator.post(some, now_s=now_s) for some in arrays]
    posts: list[Post] = []
    posts_by_id: dict[str, Post] = {}
    for happening in copies:
        if happening.id not in posts_by_id or rng.random() < RESIGNED_SHARE:
            posts_by_id[happening.id] = simulator.post([happening], now_s=now_s)
        posts.append(posts_by_id[happening.id])
    return posts


def _bad(simulator: Simulator, happened: Sequence[Happening], rng: Random, now_s: int) -> Post:
    """Make a post that would be an event of its own if it were accepted."""
    one = rng.choice(happened)
    if simulator.signs_time and rng.random() < 0.5:
        ghost = Happening(
            f"ghost-{one.id}", one.type, f"ghost-{one.message_id}", one.recipient, one.occurred_s
        )
        return simulator.post([ghost], now_s=now_s - STALE_S)
    return simulator.forge(simulator.post([one], now_s=now_s))
