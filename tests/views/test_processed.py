"""`processed_at` is the time at which all that an event owed was done."""

import pytest
from sqlalchemy import update

from mailonce.core.deliveries.delivery import processed_ms
from mailonce.core.moment import moment
from mailonce.core.query import EventFilter
from mailonce.core.work.states import State
from mailonce.store.schema.tables import DELIVERIES
from mailonce.views.events import EventJson, list_events, show_event
from mailonce.views.paging import Page, PageQuery
from tests.factories import Ledger, make_body, make_source


@pytest.mark.parametrize(
    ("owed", "expected"),
    [
        ([], 10),
        ([(State.DONE, 30), (State.DONE, 20)], 30),
        ([(State.DONE, 30), (State.DUE, None)], None),
        ([(State.LEASED, None)], None),
        # A dead letter was given up, not done; a redelivery of it may still be.
        ([(State.DONE, 30), (State.DEAD, 40)], None),
        ([(State.DUE, 30)], None),
    ],
)
def test_an_event_is_processed_when_the_last_of_its_deliveries_is_done(
    owed: list[tuple[State, int | None]], expected: int | None
) -> None:
    assert processed_ms(10, owed) == expected


async def test_lists_and_single_events_tell_when_all_was_done(ledger: Ledger) -> None:
    await ledger.tell(make_source(), [make_body("owed to nobody")])
    [alone] = (await _events(ledger))["data"]
    assert alone["processed_at"] == alone["received_at"]
    await ledger.add_route(id="rte_a")
    await ledger.add_route(id="rte_b")
    keys = await ledger.owe()

    seen = []
    for number, key in enumerate(keys, 1):
        seen.append((await _events(ledger))["data"][0]["processed_at"])
        done_ms = ledger.now_ms + 60_000 * number
        statement = update(DELIVERIES).where(DELIVERIES.c.key == key)
        await ledger.database.write(
            lambda tx, s=statement, ms=done_ms: tx.execute(s.values(state=2, done_ms=ms)) and None  # type: ignore[misc]
        )

    assert seen == [None, None]
    [newest, _] = (await _events(ledger))["data"]
    assert newest["processed_at"] == moment(ledger.now_ms + 120_000)
    shown = await show_event(ledger.database, "default", newest["id"])
    assert shown["processed_at"] == newest["processed_at"]


async def _events(ledger: Ledger) -> Page[EventJson]:
    return await list_events(ledger.database, "default", EventFilter(), page=PageQuery(10))
