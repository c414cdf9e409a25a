"""Verify: an honest log comes out the same in any order; whatever was tampered with is found."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection, delete, update

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.events.event import EventType
from mailonce.manage.records import source_of
from mailonce.manage.settings_file import apply_settings
from mailonce.pipeline.drive_flows import drive
from mailonce.pipeline.parse import entry_of
from mailonce.pipeline.receive import receive
from mailonce.pipeline.replay import ReplayReport, replay
from mailonce.providers.sendgrid import PROVIDER
from mailonce.service import Service
from mailonce.settings import Settings, SourceSettings
from mailonce.store.dialects.contract import DAY_MS
from mailonce.store.schema.tables import ARRIVALS, COPIES, COUNTS, EVENTS, FACTS, SUPPRESSIONS
from mailonce.testing import Happening, Post, Simulator, make_load, make_simulators
from mailonce.testing.load import SHARES
from mailonce.views import suppressions
from mailonce.views.paging import PageQuery
from mailonce.wiring import build_service, open_replay
from tests.providers.signing import sendgrid_public_key

KEY = sendgrid_public_key("old")

NOW_S = int(time.time())
Tamper = Callable[[Connection], object]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database=database_url, data_dir=tmp_path, admin_key="a-key-for-the-tests")


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Service]:
    service = await build_service(settings)
    try:
        await apply_settings(service.manage, settings)
        await service.start()
        yield service
    finally:
        await service.stop()


async def add_sources(service: Service, simulators: Iterable[Simulator]) -> None:
    for one in simulators:
        source = source_of(one.provider, SourceSettings(**one.settings()))
        await service.manage.sources.put(source, origin="api")


async def tell(service: Service, provider: str, post: Post) -> str:
    headers = {name.lower(): value for name, value in post.headers.items()}
    now_ms = service.clock.now_ms()
    arrival = Arrival(method="POST", headers=headers, body=post.body, now_ms=now_ms)
    flow = receive(service.receiving, provider, arrival)
    reply = await drive(service.receiving, flow)
    return str(reply.body["status"])


async def fill(settings: Settings, *, events: int = 60) -> None:
    simulators = make_simulators(SHARES)
    storm = make_load(simulators, events=events, seed=1, now_s=int(time.time()))
    async with running(settings) as service:
        await add_sources(service, simulators.values())
        posts = (tell(service, shot.provider, shot.post) for shot in storm.shots)
        await asyncio.gather(*posts)


async def verify(settings: Settings, tmp_path: Path, *, seed: int = 1) -> ReplayReport:
    folder = tmp_path / f"scratch-{time.monotonic_ns()}"
    # The service was stopped: there is nobody to wait for.
    async with open_replay(settings, folder, settle_s=0) as parts:
        assert parts is not None
        return await replay(parts, seed=seed, progress=lambda _done, _total: None)


async def change(settings: Settings, *tampers: Tamper) -> None:
    async with running(settings) as service:
        for one in tampers:
            await service.database.write(one)


def delivered(name: str, **changes: Any) -> dict[str, Any]:
    """Write an element of SendGrid's by hand, to bend it."""
    return {
        "event": "delivered",
        "email": "ann@example.net",
        "timestamp": NOW_S - 600,
        "sg_event_id": f"id-{name}",
        "sg_message_id": f"{name}.filter",
        **changes,
    }


async def test_an_honest_log_comes_out_the_same_in_any_order(
    settings: Settings, tmp_path: Path
) -> None:
    await fill(settings)

    reports = [await verify(settings, tmp_path, seed=seed) for seed in (1, 2, 3)]

    for report in reports:
        assert report.differences == []
        assert report.aside.total() == 0
        assert report.compared["facts"] == 60
        assert report.compared["suppressions"] > 0
        assert report.replayed > report.arrivals > 0


@pytest.mark.parametrize(
    ("what", "tamper"),
    [
        ("fact", update(FACTS).values(count=FACTS.c.count + 1)),
        ("fact", update(FACTS).values(last=b"\xff" * 16)),
        ("fact", update(FACTS).where(FACTS.c.kind == 5).values(first=None)),
        ("fact", delete(FACTS).where(FACTS.c.message_id == "ses-00000")),
        ("fact", update(FACTS).values(recipient="eve@example.net")),
        ("count", update(COUNTS).where(COUNTS.c.type == "delivered").values(count=99)),
        ("count", delete(COUNTS).where(COUNTS.c.type == "bounced")),
        ("suppression", delete(SUPPRESSIONS)),
        ("suppression", update(SUPPRESSIONS).values(address="eve@example.net")),
        ("suppression", update(SUPPRESSIONS).values(lifts=True)),
        ("suppression", update(SUPPRESSIONS).values(stamp=b"\x00" * 16)),
    ],
)
async def test_what_was_tampered_with_is_found(
    settings: Settings, tmp_path: Path, what: str, tamper: Any
) -> None:
    await fill(settings)
    await change(settings, lambda tx: tx.execute(tamper))

    report = await verify(settings, tmp_path)

    assert {one.what for one in report.differences} == {what}


async def test_a_persons_word_is_not_in_the_log_and_not_missed(
    settings: Settings, tmp_path: Path
) -> None:
    await fill(settings)
    async with running(settings) as service:
        page = await suppressions.list_suppressions(service.database, "default", page=PageQuery(1))
        address = page["data"][0]["address"]
        for number, word in enumerate((suppressions.suppress, suppressions.lift)):
            await word(
                service.database,
                "default",
                address,
                reason=None,
                new_id=service.clock.new_id(),
                now_ms=service.clock.now_ms() + number,
            )

    assert (await verify(settings, tmp_path)).differences == []


async def test_conflicts_are_set_aside(settings: Settings, tmp_path: Path) -> None:
    simulator = make_simulators()["sesmetric"]
    contents = (EventType.DELIVERED, EventType.BOUNCED)
    async with running(settings) as service:
        await add_sources(service, [simulator])
        for type_ in contents:
            one = Happening("evt-1", type_, "m-1", "ann@example.net", NOW_S)
            answer = await tell(service, "sesmetric", simulator.post([one], now_s=int(time.time())))
    assert answer == "conflict"

    reports = [await verify(settings, tmp_path, seed=seed) for seed in range(4)]

    assert [report.differences for report in reports] == [[]] * 4
    assert all(report.aside.total() for report in reports)


async def test_copies_known_by_an_alias_are_set_aside(settings: Settings, tmp_path: Path) -> None:
    first = [delivered("a", response="250 ok")]
    again = [delivered("a", response="250 queued"), delivered("b")]
    async with running(settings) as service:
        source = source_of("sendgrid", SourceSettings(provider="sendgrid", public_key=KEY))
        await service.manage.sources.put(source, origin="api")
        for elements in (first, again):
            await _record(service, orjson.dumps(elements))

    reports = [await verify(settings, tmp_path, seed=seed) for seed in range(6)]

    assert [report.differences for report in reports] == [[]] * 6


async def test_what_arrives_meanwhile_is_no_difference(settings: Settings, tmp_path: Path) -> None:
    await fill(settings)
    simulator = make_simulators()["mailgun"]
    late = Happening("late", EventType.BOUNCED, "mailgun-00000", "ann@example.net", NOW_S)
    async with running(settings) as service:
        await service.manage.sources.put(
            source_of("late", SourceSettings(**simulator.settings())), origin="api"
        )
        async with open_replay(settings, tmp_path / "scratch") as parts:
            assert parts is not None
            assert (
                await tell(service, "late", simulator.post([late], now_s=int(time.time())))
                == "accepted"
            )

            report = await replay(parts, seed=1, progress=lambda _done, _total: None)

    assert report.differences == []
    assert report.aside.total() == 2


async def test_an_arrival_that_is_read_otherwise_today_is_set_aside(
    settings: Settings, tmp_path: Path
) -> None:
    await fill(settings)
    some = ARRIVALS.c.source == "src_ses"
    await change(settings, lambda tx: tx.execute(update(ARRIVALS).where(some).values(events=7)))

    report = await verify(settings, tmp_path)

    assert report.differences == []
    assert report.aside.total() > 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_copies_of_pruned_events_are_not_counted_anew(
    settings: Settings, tmp_path: Path
) -> None:
    async with running(settings) as service:
        source = source_of("sendgrid", SourceSettings(provider="sendgrid", public_key=KEY))
        await service.manage.sources.put(source, origin="api")
        await _record(service, orjson.dumps([delivered("old")]))
        today = (await service.database.head()).now_ms // DAY_MS
        for aged in (ARRIVALS, EVENTS, COPIES, COUNTS):
            older = update(aged).values(day=aged.c.day - 40)
            await service.database.write(lambda tx, older=older: tx.execute(older))  # type: ignore[misc]
        await service.database.drop_days(before=today)
        await _record(service, orjson.dumps([delivered("old"), delivered("new")]))

    report = await verify(settings, tmp_path)

    assert report.differences == []
    assert report.compared["counts"] == 1
    assert report.aside.total() == 2


async def test_an_empty_log_has_nothing_to_replay(settings: Settings, tmp_path: Path) -> None:
    async with open_replay(settings, tmp_path / "scratch") as parts:
        assert parts is None


async def _record(service: Service, body: bytes) -> None:
    """Hand a body in behind the signature: what is proven is not under test here."""
    source = await service.configuration.find_source("sendgrid")
    now_ms = service.clock.now_ms()
    arrival = Arrival(method="POST", headers={}, body=body, now_ms=now_ms)
    parsed = PROVIDER.parse(arrival, source)
    entry = entry_of(PROVIDER, source, arrival, parsed, new_id=service.clock.new_id)
    await service.recorder.record(entry)
