"""What is not delivered: by route and state, and when each is tried next."""

from dataclasses import replace

from sqlalchemy import update

from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.moment import moment
from mailonce.core.query import DeliveryFilter
from mailonce.core.work.states import State
from mailonce.store.configuration import routes
from mailonce.store.schema.tables import DELIVERIES
from mailonce.views.deliveries import UndeliveredJson, list_undelivered
from mailonce.views.paging import PageQuery
from tests.queue.conftest import Works

IN_AN_HOUR_MS = 3_600_000


async def test_the_next_attempt_waits_for_an_endpoint_that_is_down(works: Works) -> None:
    await works.add_route("/down")
    await works.add_route("/up")
    await works.owe(1)
    at_ms = works.ledger.now_ms + IN_AN_HOUR_MS

    shown = await _undelivered(works, down={"rte_down": at_ms})

    by_route = {one["route"]: one for one in shown["data"]}
    assert by_route["rte_down"]["next_attempt_at"] == moment(at_ms)
    assert by_route["rte_up"]["next_attempt_at"] == by_route["rte_up"]["due_at"] is not None


async def test_an_endpoint_that_is_tried_before_a_delivery_is_due_does_not_hasten_it(
    works: Works,
) -> None:
    await works.add_route("/down")
    await works.owe(1)

    [shown] = (await _undelivered(works, down={"rte_down": 1}))["data"]

    assert shown["next_attempt_at"] == shown["due_at"] is not None


async def test_a_route_that_is_off_or_polled_has_no_next_attempt(works: Works) -> None:
    off = replace(await works.add_route("/off"), off="holiday")
    polled = replace(await works.add_route("/polled"), kind=RouteKind.POLL)
    await works.owe(1)

    shown = await _undelivered(works, routes={off.id: off, polled.id: polled}, down={off.id: 1})

    assert [one["next_attempt_at"] for one in shown["data"]] == [None, None]
    assert {one["off_reason"]: one["next_attempt_at"] for one in shown["routes"]} == {
        "holiday": None,
        None: None,
    }
    assert all(one["due_at"] for one in shown["data"])


async def test_no_attempt_is_promised_where_nothing_is_pending(works: Works) -> None:
    failed = await works.add_route("/failed")
    removed = await works.add_route("/removed")
    await works.owe(1)
    down = {failed.id: works.ledger.now_ms, removed.id: works.ledger.now_ms}
    await works.database.write(
        lambda tx: (
            tx.execute(
                update(DELIVERIES).where(DELIVERIES.c.route == failed.id).values(state=State.LEASED)
            )
            and None
        )
    )
    await works.database.write(lambda tx: routes.remove(tx, "default", removed.id))

    shown = await _undelivered(works, routes={failed.id: failed}, down=down)

    assert {one["route"]: (one["pending"], one["in_progress"]) for one in shown["routes"]} == {
        failed.id: (0, 1),
        removed.id: (1, 0),
    }, "what is left of a removed route is shown until it is given up"
    for one in (*shown["data"], *shown["routes"]):
        assert (one["next_attempt_at"], one["endpoint_down"]) == (None, False)
    of_removed = await _undelivered(works, DeliveryFilter(route=removed.id))
    of_nobody = await _undelivered(works, DeliveryFilter(route=removed.id), workspace="other")
    assert (of_removed["total"], of_nobody["total"]) == (1, 0)


async def test_rows_and_sums_are_narrowed_by_route_and_state(works: Works) -> None:
    await works.add_route("/one")
    await works.add_route("/two")
    await works.owe(3)

    of_route = await _undelivered(works, DeliveryFilter(route="rte_one"))
    pending = await _undelivered(works, DeliveryFilter(route="rte_one", state=State.DUE))
    failed = await _undelivered(works, DeliveryFilter(state=State.DEAD))

    assert {one["route"] for one in of_route["data"]} == {"rte_one"}
    assert [one["route"] for one in of_route["routes"]] == ["rte_one"]
    assert (of_route["total"], pending["total"], len(pending["data"])) == (3, 3, 3)
    assert (failed["total"], failed["routes"], failed["data"]) == (0, [], [])


async def test_what_is_undelivered_is_found_by_time_and_names_whom_it_is_about(
    works: Works,
) -> None:
    await works.add_route("/one")
    await works.owe(2)
    now_ms = works.ledger.now_ms

    later = await _undelivered(works, DeliveryFilter(since_ms=now_ms + IN_AN_HOUR_MS))
    before = await _undelivered(works, DeliveryFilter(until_ms=now_ms + IN_AN_HOUR_MS))

    assert (later["total"], later["data"]) == (0, [])
    assert before["total"] == 2
    assert all("@" in (one["recipient"] or "") for one in before["data"])


async def _undelivered(
    works: Works,
    query: DeliveryFilter | None = None,
    *,
    workspace: str = "default",
    routes: dict[str, Route] | None = None,
    down: dict[str, int] | None = None,
) -> UndeliveredJson:
    return await list_undelivered(
        works.database,
        workspace,
        works.ledger.routes if routes is None else routes,
        PageQuery(50, None),
        query=query or DeliveryFilter(),
        down=down or {},
    )
