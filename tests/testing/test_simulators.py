"""The simulators speak and sign as the providers do, by the judgement of our own verifiers."""

from collections.abc import Mapping
from typing import Any

import pytest

from mailonce import providers
from mailonce.core.arrival import Arrival
from mailonce.core.event import Bounce, EventType
from mailonce.core.provider import Provider, Refused, Verified
from mailonce.core.source import Source
from mailonce.pipeline.verify import verify
from mailonce.settings import SourceSettings
from mailonce.testing import Happening, Post, make_simulators, make_storm
from mailonce.testing.storm import STALE_S
from mailonce.wiring import source_of

NOW_S = 1_767_225_600
NAMES = ["sendgrid", "ses", "mailgun", "postmark", "sesmetric"]
TYPES = [
    EventType.DELIVERED,
    EventType.DEFERRED,
    EventType.BOUNCED,
    EventType.COMPLAINED,
    EventType.OPENED,
    EventType.CLICKED,
]


def provider_of(name: str) -> Provider:
    provider = providers.find(name)
    assert provider is not None
    return provider


def source(settings: Mapping[str, Any]) -> Source:
    return source_of("main", SourceSettings(**settings))


def arrival(post: Post) -> Arrival:
    headers = {name.lower(): value for name, value in post.headers.items()}
    return Arrival(method="POST", headers=headers, body=post.body, now_ms=NOW_S * 1000)


async def no_key(url: str) -> bytes:
    raise AssertionError(f"nothing should be fetched, but {url} was asked for")


def happening(type_: EventType) -> Happening:
    return Happening(f"evt-{type_.value}", type_, "m-1", "ann@example.net", NOW_S - 60)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("type_", TYPES)
async def test_a_post_is_proven_and_says_what_happened(name: str, type_: EventType) -> None:
    simulator, provider = make_simulators()[name], provider_of(name)
    trusting = source(simulator.settings())

    posted = arrival(simulator.post([happening(type_)], now_s=NOW_S))

    assert isinstance(await verify(no_key, provider, trusting, posted), Verified)
    (event,) = provider.parse(posted, trusting).events
    assert (event.type, event.message_id, event.recipient) == (type_, "m-1", "ann@example.net")
    assert event.occurred_ms == (NOW_S - 60) * 1000
    if type_ is EventType.BOUNCED:
        assert event.bounce is Bounce.HARD


@pytest.mark.parametrize("name", NAMES)
async def test_a_forged_post_is_refused(name: str) -> None:
    simulator = make_simulators()[name]
    trusting = source(simulator.settings())

    forged = simulator.forge(simulator.post([happening(EventType.BOUNCED)], now_s=NOW_S))

    assert b"example.net" not in forged.body
    assert isinstance(await verify(no_key, provider_of(name), trusting, arrival(forged)), Refused)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "postmark"])
async def test_an_old_post_is_refused(name: str) -> None:
    simulator = make_simulators()[name]
    trusting = source(simulator.settings())

    stale = simulator.post([happening(EventType.BOUNCED)], now_s=NOW_S - STALE_S)

    verdict = await verify(no_key, provider_of(name), trusting, arrival(stale))
    assert verdict == Refused("stale timestamp")


def test_a_storm_tells_every_event_and_the_same_seed_makes_the_same_one() -> None:
    simulators = make_simulators()
    storm = make_storm(simulators, events=200, seed=5, now_s=NOW_S)
    again = make_storm(simulators, events=200, seed=5, now_s=NOW_S)
    other = make_storm(simulators, events=200, seed=6, now_s=NOW_S)

    told: set[tuple[str, str]] = set()
    for shot in (one for one in storm.shots if one.honest):
        parsed = provider_of(shot.provider).parse(
            arrival(shot.post), source(simulators[shot.provider].settings())
        )
        told |= {(event.message_id, event.type.value) for event in parsed.events}

    happened = [one for some in storm.happenings.values() for one in some]
    assert len(happened) == 200
    assert told == {(one.message_id, one.type.value) for one in happened}
    assert storm.happenings == again.happenings
    assert [one.provider for one in storm.shots] == [one.provider for one in again.shots]
    assert storm.happenings != other.happenings
