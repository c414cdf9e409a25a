"""The simulators speak and sign as the providers do, by the judgement of our own verifiers."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from mailonce import providers
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import NeedKey, Provider, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.errors import ConfigError
from mailonce.manage.records import source_of
from mailonce.pipeline.verify import verify_now, verify_with
from mailonce.settings import SourceSettings
from mailonce.testing import (
    Happening,
    PlanOptions,
    Post,
    Simulator,
    make_load,
    make_plan,
    make_simulator,
    make_simulators,
)
from mailonce.testing.load import SHARES
from mailonce.testing.simulators import names

NOW_S = 1_767_225_600
# Keys of a seed are made once for all tests.
SEED = "1"
NAMES = names()
# Nothing in these is signed with a time.
TIMELESS = [name for name, one in make_simulators().items() if not one.signs_time]


def provider_of(name: str) -> Provider:
    provider = providers.find(name)
    assert provider is not None
    return provider


def source(settings: Mapping[str, Any]) -> Source:
    return source_of("main", SourceSettings(**settings))


def arrival(post: Post) -> Arrival:
    headers = {name.lower(): value for name, value in post.headers.items()}
    return Arrival(
        method=post.method,
        headers=headers,
        body=post.body,
        now_ms=NOW_S * 1000,
        query=post.query,
        token=post.path.removeprefix("/") or None,
    )


async def judge(simulator: Simulator, post: Post) -> Verdict:
    """Verify a post; what is fetched for that is the simulator's, or nothing."""

    provider, to = provider_of(simulator.provider), source(simulator.settings())
    verdict = verify_now(provider, to, arrival(post))
    if isinstance(verdict, NeedKey):
        keys = {verdict.url: simulator.certificates[verdict.url]}
        verdict = verify_with(provider, to, arrival(post), keys)
    return verdict


def read(simulator: Simulator, post: Post) -> Sequence[Event]:
    provider = provider_of(simulator.provider)
    return provider.parse(arrival(post), source(simulator.settings())).events


def happening(simulator: Simulator, type_: EventType | None = None) -> Happening:
    chosen = type_ or simulator.types[0]
    message_id = "123456" if simulator.numbers_messages else "m-1"
    return Happening(f"evt-{chosen.value}", chosen, message_id, "ann@example.net", NOW_S - 60)


def test_every_provider_has_a_simulator_and_each_simulator_a_provider() -> None:
    played = {one.provider for one in make_simulators().values()}

    assert played == set(providers.BUILTIN)


def test_a_simulator_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"no simulator 'pigeon'; choose one of .*sendgrid"):
        make_simulator("pigeon")


@pytest.mark.parametrize("name", NAMES)
async def test_a_post_is_proven_and_says_what_happened(
    name: str, subtests: pytest.Subtests
) -> None:
    simulator = make_simulator(name, SEED)
    assert simulator.types
    for type_ in simulator.types:
        with subtests.test(type_.value):
            one = happening(simulator, type_)

            posted = simulator.post([one], now_s=NOW_S)

            assert isinstance(await judge(simulator, posted), Verified)
            (event,) = read(simulator, posted)
            assert event.type is type_
            assert (event.message_id, event.recipient) == (one.message_id, one.recipient)
            # A mail that Cloudflare hands over has no time but what its sender wrote.
            at_ms = None if name == "cloudflare" else (NOW_S - 60) * 1000
            assert event.occurred_ms == at_ms
            assert event.bounce == (Bounce.HARD if type_ is EventType.BOUNCED else None)


@pytest.mark.parametrize("name", NAMES)
async def test_a_full_batch_is_proven_and_says_all(name: str) -> None:
    simulator = make_simulator(name, SEED)
    plan = make_plan(simulator, PlanOptions(events=simulator.batch_max), now_s=NOW_S)

    posted = simulator.post(plan.happened, now_s=NOW_S)

    assert isinstance(await judge(simulator, posted), Verified)
    pairs = {(one.message_id, one.type) for one in read(simulator, posted)}
    assert pairs == {(one.message_id, one.type) for one in plan.happened}


@pytest.mark.parametrize("name", NAMES)
async def test_a_forged_post_is_refused(name: str) -> None:
    simulator = make_simulator(name, SEED)

    forged = simulator.forge(simulator.post([happening(simulator)], now_s=NOW_S))

    assert b"example.net" not in forged.body
    assert "example.net" not in forged.query
    assert isinstance(await judge(simulator, forged), Refused)


@pytest.mark.parametrize("name", NAMES)
async def test_a_damaged_post_is_refused_where_the_body_is_signed(name: str) -> None:
    simulator = make_simulator(name, SEED)
    post = simulator.post([happening(simulator)], now_s=NOW_S)

    harmed = [simulator.damage(post, Random(seed)) for seed in range(50)]

    assert all(one != post for one in harmed)
    if provider_of(simulator.provider).signs_body:
        verdicts = [await judge(simulator, one) for one in harmed]
        assert {type(one) for one in verdicts} == {Refused}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TIMELESS])
async def test_an_old_post_is_refused(name: str) -> None:
    simulator = make_simulator(name, SEED)
    window_s = provider_of(simulator.provider).freshness_s
    assert window_s is not None

    stale = simulator.post([happening(simulator)], now_s=NOW_S - window_s - 1)

    assert await judge(simulator, stale) == Refused("stale timestamp")


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_makes_the_same_keys_and_another_makes_others(name: str) -> None:
    settings = [make_simulator(name, seed).settings() for seed in (SEED, SEED, "another", None)]

    assert settings[0] == settings[1]
    assert settings[0] not in settings[2:]


@pytest.mark.parametrize("name", NAMES)
def test_retries_end_within_the_horizon_that_the_provider_is_known_for(name: str) -> None:
    simulator = make_simulator(name, SEED)
    horizon_s = provider_of(simulator.provider).retry_horizon_s

    assert simulator.retry_waits_s
    assert sum(simulator.retry_waits_s) <= horizon_s


@pytest.mark.parametrize("name", NAMES)
def test_what_ends_the_retries_is_known_of_the_provider(name: str) -> None:
    simulator = make_simulator(name, SEED)
    codes = provider_of(simulator.provider).codes

    assert codes.refused_is_final == simulator.stops(codes.refused)
    assert not simulator.stops(codes.later)


def test_a_storm_tells_every_event_and_the_same_seed_makes_the_same_one() -> None:
    simulators = make_simulators(SHARES)
    storm = make_load(simulators, events=200, seed=5, now_s=NOW_S)
    again = make_load(simulators, events=200, seed=5, now_s=NOW_S)
    other = make_load(simulators, events=200, seed=6, now_s=NOW_S)

    pairs: set[tuple[str, str]] = set()
    for shot in (one for one in storm.shots if one.honest):
        parsed = provider_of(shot.provider).parse(
            arrival(shot.post), source(simulators[shot.provider].settings())
        )
        pairs |= {(event.message_id, event.type.value) for event in parsed.events}

    happened = [one for some in storm.happenings.values() for one in some]
    assert len(happened) == 200
    assert pairs == {(one.message_id, one.type.value) for one in happened}
    assert storm.happenings == again.happenings
    assert [one.provider for one in storm.shots] == [one.provider for one in again.shots]
    assert storm.happenings != other.happenings
