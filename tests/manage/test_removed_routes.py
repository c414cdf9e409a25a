"""A route that was removed: it is put back under its name, and what was left of it is sent."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailonce.core.access import Caller, Scope
from mailonce.core.deliveries.rerun import RerunFilter
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.query import DeadLetterFilter
from mailonce.core.work.states import AttemptKind, State
from mailonce.errors import ClashError, MissingError, RefusedError
from mailonce.handlers import handler_id
from mailonce.manage.audit import begin_change, entry_of
from mailonce.queue import maintain
from mailonce.service import Service
from mailonce.settings import RouteSettings, Settings
from mailonce.store import audit
from mailonce.store.audit import ACTING
from mailonce.store.configuration import routes
from mailonce.store.configuration.removed_routes import REMOVAL
from mailonce.store.dialects.contract import Tx
from mailonce.store.ledger import dead_letters
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.store.schema.tables import DELIVERIES
from mailonce.views.deliveries import list_undelivered
from mailonce.views.paging import PageQuery
from mailonce.wiring import build_service
from tests.factories import Ledger

ANN = Caller("default", Scope.OPERATOR)
BOB = Caller("ws_bob", Scope.OPERATOR)
CRM = RouteSettings(url="https://crm.example.com/hooks")
FEED = RouteSettings(kind=RouteKind.POLL)


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[Service]:
    made = await build_service(
        Settings(
            data_dir=tmp_path,
            database=database_url,
            admin_key="admin-key-for-tests",
            master_key="one",
        )
    )
    yield made
    await made.database.close()


async def make(
    service: Service, name: str = "crm", caller: Caller = ANN, settings: RouteSettings = CRM
) -> str:
    return (await service.manage.routes.make(caller, name, settings)).route.id


async def remove(service: Service, name: str = "crm", caller: Caller = ANN) -> None:
    """Remove a route as the API does: the audit log keeps its name."""
    begin_change(service.clock, caller, REMOVAL, name)
    await service.manage.routes.remove(caller, name)
    ACTING.set(None)


async def owe(service: Service, number: int) -> None:
    """Record events that are owed to every route."""
    await service.configuration.reload()
    ledger = Ledger(service.database, (await service.database.head()).now_ms)
    ledger.routes = dict(service.snapshot.routes)
    await ledger.owe(number)


async def test_a_route_that_is_put_back_is_the_same_route(service: Service) -> None:
    first = await make(service)
    other = await make(service, "other")
    await remove(service)

    again = await make(service)

    assert again == first != other
    with pytest.raises(ClashError, match="there is a route 'crm' already"):
        await make(service)
    await remove(service)
    assert await make(service) == first


async def test_the_name_of_a_route_of_another_workspace_is_a_new_route(service: Service) -> None:
    first = await make(service)
    await remove(service)

    of_bob = await make(service, caller=BOB)

    assert of_bob != first
    assert await make(service) == first


async def test_a_removed_route_is_found_by_what_tables_show_of_it(service: Service) -> None:
    id_ = await make(service)
    await remove(service)

    assert await service.manage.routes.id_of(ANN, "crm (removed)") == id_
    with pytest.raises(MissingError):
        await service.manage.routes.id_of(ANN, "other (removed)")
    odd = await make(service, "crm (removed)")
    assert await service.manage.routes.id_of(ANN, "crm (removed)") == odd


async def test_a_name_that_begins_as_another_is_another_route(service: Service) -> None:
    longer = await make(service, "crm (rte_x)")
    await remove(service, "crm (rte_x)")

    assert await make(service, "crm") != longer
    assert await make(service, "crm (rte_x)") == longer


async def test_names_that_differ_in_case_are_two_routes(service: Service) -> None:
    upper = await make(service, "CRM")
    await remove(service, "CRM")

    lower = await make(service, "crm")

    assert lower != upper
    assert re.fullmatch("rte_[0-9a-f]{32}", lower)
    with pytest.raises(MissingError) as unknown:
        await service.manage.routes.find(ANN, "Crm")
    assert "removed" not in str(unknown.value)
    assert await make(service, "CRM") == upper


async def test_a_route_that_is_removed_while_its_name_is_given_again_is_that_route(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await make(service)

    async def removed_in_between(work: Callable[[Tx], Any], **named: Any) -> Any:
        monkeypatch.undo()
        await remove(service)
        return await service.database.write(work, **named)

    monkeypatch.setattr(service.database, "write", removed_in_between)
    assert await make(service) == first


async def test_two_who_put_a_route_back_at_once_make_one(service: Service) -> None:
    first = await make(service)
    await remove(service)
    late = service.manage.routes.prepare(
        (await service.manage.routes.make(ANN, "crm", CRM)).route, origin="api", must_be_new=True
    )

    with pytest.raises(ClashError, match="there is a route 'crm' already"):
        await service.database.write(late)

    assert [route.id for route in service.manage.routes.list_of(ANN)] == [first]


async def test_a_route_never_gets_the_id_of_a_handler(service: Service) -> None:
    of_handler = handler_id("default", "crm")
    entry = entry_of(service.clock, "default", "local", REMOVAL, f"crm ({of_handler})")
    await service.database.write(lambda tx: audit.put(tx, entry))

    assert await make(service) != of_handler


async def test_a_polled_route_that_is_put_back_goes_on_behind_its_numbers(
    service: Service,
) -> None:
    feed = await make(service, "feed", settings=FEED)
    await owe(service, 3)
    before = await _poll(service, feed)
    await service.polls.acknowledge(feed, 2)
    await remove(service, "feed")

    assert await make(service, "feed", settings=FEED) == feed
    await owe(service, 1)

    after = await _poll(service, feed)
    assert ([seq for seq, _ in before], [seq for seq, _ in after]) == ([1, 2, 3], [3, 4])
    assert after[0] == before[2], "nobody has acknowledged it"


async def _poll(service: Service, route: str) -> list[Any]:
    page = await service.polls.read(route, workspace="default", after=None, limit=100, wait_s=0)
    return [(one.seq, one.key) for one in page.rows]


async def test_what_is_due_to_a_route_that_is_put_back_is_not_given_up(service: Service) -> None:
    route = await make(service)
    await owe(service, 2)
    await remove(service)
    assert await make(service) == route

    await service.maintenance.prune()

    rows = await service.database.read(lambda tx: tx.execute(select(DELIVERIES)).all())
    assert [(row.state, row.lane) for row in rows] == [(State.DUE, AttemptKind.FIRST)] * 2


async def test_a_route_that_was_removed_is_not_called_unknown(service: Service) -> None:
    await make(service)
    await remove(service)

    with pytest.raises(MissingError, match="it was removed: put the route back with"):
        await service.manage.routes.find(ANN, "crm")
    with pytest.raises(MissingError) as unknown:
        await service.manage.routes.find(BOB, "crm")

    assert "removed" not in str(unknown.value)


async def test_a_letter_is_retried_by_the_databases_word_on_its_route(service: Service) -> None:
    """Another process may have removed the route, or put it back, a moment ago."""
    route = await make(service)
    await owe(service, 1)
    await service.manage.routes.remove(ANN, route)
    await service.maintenance.give_up_removed(route)
    await service.configuration.reload()
    [letter] = await _letters(service)
    with pytest.raises(RefusedError, match="its route was removed"):
        await service.reruns.retry(letter)

    put = service.manage.routes.prepare(
        Route(id=route, workspace="default", name="crm", url=CRM.url), origin="api"
    )
    await service.database.write(put)
    await service.configuration.reload()
    await service.database.write(lambda tx: routes.remove(tx, "default", route))
    with pytest.raises(RefusedError, match="its route was removed"):
        await service.reruns.retry(letter)
    assert await _letters(service) == [letter]

    await service.configuration.reload()
    await service.database.write(put)
    assert await service.reruns.retry(letter)
    assert await _letters(service) == [], "it is closed"


async def test_a_delivery_is_sent_again_by_the_databases_word_on_its_route(
    service: Service,
) -> None:
    """Another process may have put the route back a moment ago."""
    route = await make(service)
    await owe(service, 1)
    [row] = await service.database.read(lambda tx: tx.execute(select(DELIVERIES)).all())
    await remove(service)
    await service.configuration.reload()
    put = service.manage.routes.prepare(
        Route(id=route, workspace="default", name="crm", url=CRM.url), origin="api"
    )
    await service.database.write(put)

    named = await service.reruns.leave_out_unsendable("default", RerunFilter(ids=(row.key,)))

    assert (named.filter_.ids, named.route_removed) == ((row.key,), 0)


async def test_many_that_were_pending_are_given_up_bit_by_bit(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "DELIVERY_ROWS", 2)
    monkeypatch.setattr(maintain, "REMOVAL_SLICES_MAX", 2)
    route = await make(service)
    await owe(service, 5)

    await service.remove_route(ANN, route)

    left = await list_undelivered(service.database, "default", {}, PageQuery(50))
    assert (left["routes"][0]["pending"], left["routes"][0]["failed"]) == (1, 4)
    assert left["routes"][0]["next_attempt_at"] is None
    await service.maintenance.prune()
    assert len(await _letters(service)) == 5


async def _letters(service: Service) -> list[DeadLetter]:
    where = DeadLetterFilter()
    return await service.database.read(
        lambda tx: dead_letters.page(tx, "default", where, below=None, limit=100)
    )
