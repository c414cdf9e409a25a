"""Two processes change the same routes and sources: nobody writes back what he read before."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from mailonce.clock import Clock
from mailonce.core.access import Caller, Scope
from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route, RouteSecret
from mailonce.core.deliveries.route_secret import Signing
from mailonce.core.deliveries.signing import new_secret
from mailonce.core.record_origin import API
from mailonce.core.signatures.sealing import Sealer
from mailonce.core.work.states import State
from mailonce.errors import ClashError, ConfigError, MissingError, RefusedError
from mailonce.manage.managing import Parts
from mailonce.manage.routes import Routes
from mailonce.manage.sources import Sources
from mailonce.net.http import GuardedClient
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.wake import Wakes
from mailonce.settings import read_settings
from mailonce.store.configuration import routes
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import Metrics
from mailonce.wiring import build_service
from tests.endpoint import answers
from tests.factories import SEALER, make_source
from tests.queue.conftest import Works

CALLER = Caller("default", Scope.OPERATOR)
ROUTE = Route(id="rte_1", workspace="default", name="crm", url="https://hooks.example.com/in")


@dataclass
class Doors:
    """What two processes know; neither looks for changes of the other by itself."""

    first: Routes
    second: Routes

    async def stored(self) -> dict[str, Route]:
        await self.first.parts.configuration.reload()
        return self.first.parts.configuration.snapshot.routes


@pytest_asyncio.fixture
async def doors(database: Database) -> AsyncIterator[Doors]:
    client = GuardedClient()
    made = []
    for _ in range(2):
        clock = Clock()
        configuration = ConfigurationCache(database, clock, SEALER, Metrics())
        made.append(Routes(Parts(database, clock, SEALER, client, configuration, window_days=35)))
    yield Doors(*made)
    await client.close()


async def test_a_rotated_secret_survives_a_change_elsewhere(doors: Doors) -> None:
    made = await doors.first.put(ROUTE, origin=API)
    await doors.second.parts.configuration.reload()
    rotated = await doors.first.rotate(CALLER, "crm", signing=Signing.HMAC, overlap_s=0)
    await doors.first.switch(CALLER, "crm", off="by hand")

    await doors.second.put(replace(ROUTE, concurrency=5), origin=API, must_exist=True)

    stored = (await doors.stored())["rte_1"]
    assert [one.value for one in stored.secrets if one.until_ms is None] == [rotated.secret]
    assert rotated.secret != made.secret
    assert (stored.concurrency, stored.off) == (5, "by hand")


async def test_two_rotations_at_two_doors_both_stand(doors: Doors) -> None:
    await doors.first.put(ROUTE, origin=API)
    await doors.second.parts.configuration.reload()
    one = await doors.first.rotate(CALLER, "crm", signing=Signing.HMAC, overlap_s=3_600)
    two = await doors.second.rotate(CALLER, "crm", signing=Signing.HMAC, overlap_s=3_600)

    values = [secret.value for secret in (await doors.stored())["rte_1"].secrets]

    assert values[0] == two.secret
    assert one.secret in values


async def test_a_deleted_route_is_not_made_again_by_a_change(doors: Doors) -> None:
    await doors.first.put(ROUTE, origin=API)
    await doors.second.parts.configuration.reload()
    await doors.first.remove(CALLER, "crm")

    with pytest.raises(MissingError):
        await doors.second.put(ROUTE, origin=API, must_exist=True)
    with pytest.raises(MissingError):
        await doors.second.rotate(CALLER, "crm", signing=Signing.HMAC, overlap_s=0)

    assert await doors.stored() == {}


async def test_what_was_made_elsewhere_is_found_before_anybody_looked(doors: Doors) -> None:
    sources = [Sources(routes.parts) for routes in (doors.first, doors.second)]
    source = make_source(id="src_1", name="elsewhere", secrets=("s3cret",))

    await doors.first.put(ROUTE, origin=API)
    await doors.second.switch(CALLER, "crm", off="by hand")
    await sources[0].put(source, origin=API)
    await sources[1].remove(CALLER, "elsewhere")
    await doors.first.put(replace(ROUTE, id="rte_2", name="billing"), origin=API)

    assert await doors.second.id_of(CALLER, "billing") == "rte_2"
    assert (await doors.first.find(CALLER, "crm")).off == "by hand"
    with pytest.raises(MissingError):
        await sources[0].find(CALLER, "elsewhere")
    assert await doors.first.id_of(CALLER, "rte_gone") == "rte_gone"


async def test_a_name_is_given_once_however_many_want_it(doors: Doors) -> None:
    wanted = [replace(ROUTE, id=f"rte_{number}") for number in range(6)]

    made = await asyncio.gather(
        *((doors.first, doors.second)[number % 2].put(route, origin=API)
          for number, route in enumerate(wanted)),
        return_exceptions=True,
    )  # fmt: skip

    assert sum(isinstance(one, ClashError) for one in made) == 5
    assert len(await doors.stored()) == 1


async def test_a_workspace_has_so_many_routes(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailonce.manage.routes.ROUTES_MAX", 2)
    for number in range(2):
        await doors.first.put(replace(ROUTE, id=f"rte_{number}", name=f"r{number}"), origin=API)

    with pytest.raises(RefusedError, match="at most 2 routes"):
        await doors.first.put(replace(ROUTE, id="rte_9", name="r9"), origin=API)
    await doors.first.put(replace(ROUTE, id="rte_1", name="r1", concurrency=7), origin=API)


async def test_a_route_names_sources_that_are_there(doors: Doors) -> None:
    with pytest.raises(ConfigError, match="no source 'nowhere'"):
        await doors.first.put(replace(ROUTE, sources=("nowhere",)), origin=API)


async def test_sources_are_changed_in_the_transaction_that_read_them(
    database_url: str, tmp_path: Path
) -> None:
    if database_url.startswith("sqlite"):
        pytest.skip("SQLite has one process")
    settings = read_settings(database=database_url, data_dir=tmp_path, master_key="shared")
    one, two = await build_service(settings), await build_service(settings)
    try:
        source = make_source(secrets=("s" * 20,), account="first")
        wanted = [replace(source, id=f"src_{number}") for number in range(4)]
        made = await asyncio.gather(
            *((one, two)[number % 2].manage.sources.put(each, origin="api")
              for number, each in enumerate(wanted)),
            return_exceptions=True,
        )  # fmt: skip
        assert sum(isinstance(each, ClashError) for each in made) == 3
        [stands] = [each for each in made if isinstance(each, Source)]
        await one.manage.sources.put(replace(stands, account="second"), origin="api")
        kept = await two.manage.sources.put(
            replace(stands, account="main"), origin="api", must_exist=True, keeps_account=True
        )
        assert kept.account == "second"
        await one.manage.sources.remove(CALLER, stands.id)
        with pytest.raises(MissingError):
            await two.manage.sources.put(stands, origin="api", must_exist=True)
        workspaces = await asyncio.gather(
            *((one, two)[number % 2].manage.workspaces.make("same") for number in range(4)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, ClashError) for each in workspaces) == 3
    finally:
        await one.database.close()
        await two.database.close()


async def test_a_change_is_in_force_for_the_next_attempt(works: Works) -> None:
    """No look of the worker and no timer in between: what begins after the change goes by it."""
    secret = RouteSecret(new_secret(bytes(range(32))))
    route = await works.add_route("/old", rate_per_s=200.0, concurrency=2, secrets=(secret,))
    works.endpoint.behaviours["/old"] = answers(200)
    worker = await works.start()
    configuration = works.configurations[worker]
    # Nothing may be noticed by looking around.
    await configuration.stop()
    await works.owe(2_000)
    await works.until(lambda: len(works.endpoint.requests) >= 5)

    await works.ledger.add_route(**{**_fields(route), "url": works.endpoint.url("/new")})
    await configuration.announce()
    before = len(works.endpoint.at("/old"))
    await works.until(lambda: len(works.endpoint.at("/new")) >= 5)
    # Two were under way.
    assert len(works.endpoint.at("/old")) <= before + 2

    await works.switch(route.id, "by hand")
    await configuration.announce()
    before = len(works.endpoint.requests)
    await asyncio.sleep(0.3)
    assert len(works.endpoint.requests) <= before + 2


async def test_a_route_that_cannot_be_opened_any_more_is_not_tried_unsigned(works: Works) -> None:
    """Another process sealed it with a master key that this one does not have."""
    secret = RouteSecret(new_secret(bytes(range(32))))
    route = await works.add_route("/ok", rate_per_s=200.0, concurrency=2, secrets=(secret,))
    worker = await works.start()
    configuration = works.configurations[worker]
    await configuration.stop()
    await works.owe(500)
    await works.until(lambda: len(works.endpoint.requests) >= 5)

    other = Sealer(["a master key of somebody else"])
    await works.database.write(
        lambda tx: routes.put(
            tx, route, other, origin="api", now_ms=works.ledger.now_ms, chance=os.urandom
        )
    )
    await configuration.announce()
    await asyncio.sleep(0.3)
    await worker.stop()

    assert {bool(one.headers.get("webhook-signature")) for one in works.endpoint.requests} == {True}
    rows = await works.rows()
    assert {row["state"] for row in rows} == {State.DUE, State.DONE}
    # What was leased and not begun went back as if it had never been leased.
    assert {(row["state"], row["attempts"]) for row in rows} == {(State.DUE, 0), (State.DONE, 1)}


async def test_another_process_is_told_of_a_change(database: Database) -> None:
    if database.name == "sqlite":
        pytest.skip("SQLite has one process")
    notified = asyncio.Event()
    here, there = Wakes(database), Wakes(database)
    there.on_configuration = notified.set
    try:
        for one in (here, there):
            one.start()
        while not notified.is_set():
            # Its connection may not be open yet.
            here.tell_changed()
            await asyncio.sleep(0.05)
    finally:
        await here.stop()
        await there.stop()


def _fields(route: Route) -> dict[str, object]:
    return {name: getattr(route, name) for name in Route.__slots__ if name != "off"}
