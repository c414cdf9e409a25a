"""A deleted mail is gone from everything that was made of it for routes."""

import asyncio
from typing import Any
from unittest.mock import ANY

import pytest
from sqlalchemy import update

from mailonce.core.access import Caller, Scope
from mailonce.core.deliveries.delivery import delivery_id
from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.core.query import DeadLetterFilter
from mailonce.core.record_origin import API
from mailonce.core.work.states import State
from mailonce.errors import RefusedError
from mailonce.inbox import digest_mail
from mailonce.manage.records import route_of
from mailonce.settings import RouteSettings
from mailonce.store.inboxes.purge import InboxPlace
from mailonce.store.schema.mail_tables import MESSAGES
from mailonce.store.schema.tables import ARRIVALS, DEAD_LETTERS, DELIVERIES, EVENTS
from mailonce.views.dead_letters import list_dead_letters, show_dead_letter
from mailonce.views.paging import PageQuery
from tests.endpoint import answers
from tests.inbox.conftest import RAW, Desk, make_mail

WORD = b"a secret word"
MAIL = RAW + WORD
DELETED = "its mail was deleted, and its body with it"
OPEN = DeadLetterFilter()
PAGE = PageQuery(10)
OPERATOR = Caller("default", Scope.OPERATOR)


async def stored(desk: Desk) -> list[str]:
    """Name the tables in which the word of the mail stands."""
    tables = (EVENTS, DELIVERIES, DEAD_LETTERS, ARRIVALS)
    return [
        table.name
        for table in tables
        for row in await desk.rows(table)
        if any(WORD in value for value in row.values() if isinstance(value, bytes))
    ]


async def delete_inbox(desk: Desk, inbox: str) -> Any:
    purge = desk.service.mail.purge
    return (await purge.delete([InboxPlace("default", inbox)], limit_s=60)).counts


async def add_route(desk: Desk, path: str, **settings: Any) -> None:
    given = RouteSettings(url=desk.endpoint.url(path), events=["inbound"], **settings)
    await desk.service.manage.routes.put(route_of(path[1:], given), origin=API)


async def test_deleting_an_inbox_erases_the_bodies_of_deliveries(desk: Desk) -> None:
    desk.endpoint.behaviours["/no"] = answers(400)
    await desk.add_route(events=["inbound"])
    await add_route(desk, "/no")
    inbox = await desk.post.make("ann@in.test")
    other = await desk.post.make("bob@in.test")
    await desk.post.send(make_mail(MAIL))
    await desk.post.send(make_mail(RAW + b"another", "bob@in.test"))
    await desk.until_done()
    assert set(await stored(desk)) == {"events", "deliveries", "dead_letters"}

    counts = await delete_inbox(desk, inbox.id)

    assert await stored(desk) == []
    assert (counts.messages, counts.deliveries, counts.posts) == (1, 2, 0)
    rows = await desk.rows(DELIVERIES)
    assert [row["state"] for row in rows].count(State.DONE) == 2
    kept = [row for row in await desk.rows(EVENTS) if row["body"] is not None]
    assert [row["recipient"] for row in kept] == ["bob@in.test"]
    assert (await delete_inbox(desk, other.id)).deliveries == 2


async def test_what_was_erased_is_not_sent_again_and_the_rest_is(desk: Desk) -> None:
    await desk.add_route(events=["inbound"])
    inbox = await desk.post.make("ann@in.test")
    await desk.post.make("bob@in.test")
    await desk.post.send(make_mail(MAIL))
    await desk.until_done()
    [first] = await desk.rows(DELIVERIES)
    await desk.post.send(make_mail(RAW + b"another", "bob@in.test"))
    await desk.until_done()
    await delete_inbox(desk, inbox.id)

    reruns = desk.service.reruns
    key = bytes(first["key"])
    with pytest.raises(RefusedError, match="its mail was deleted") as refused:
        await reruns.leave_out_unsendable("default", RerunFilter(ids=(key,)))
    [other] = [bytes(row["key"]) for row in await desk.rows(DELIVERIES) if row["key"] != key]
    left = await reruns.leave_out_unsendable("default", RerunFilter(ids=(other, key, other)))
    count = await reruns.count("default", RerunKind.REDELIVERY, RerunFilter())

    assert delivery_id(key) in str(refused.value)
    assert (left.filter_.ids, left.mail_deleted, left.route_removed) == ((other,), 1, 0)
    assert (count.total, count.erased) == (1, 1)


async def test_a_pending_delivery_of_a_deleted_mail_is_given_up(desk: Desk) -> None:
    desk.endpoint.behaviours["/later"] = answers(503)
    await add_route(desk, "/later", waits_s=[3600])
    inbox = await desk.post.make("ann@in.test")
    await desk.post.send(make_mail(MAIL))

    async def is_tried() -> bool:
        return any(row["attempts"] == 1 for row in await desk.rows(DELIVERIES)) and all(
            row["state"] == State.DUE for row in await desk.rows(DELIVERIES)
        )

    await desk.until(is_tried)
    counts = await delete_inbox(desk, inbox.id)
    is_now = update(DELIVERIES).values(due_ms=0)
    await desk.service.database.write(lambda tx: tx.execute(is_now))
    await desk.until_done()

    assert counts.deliveries == 1
    assert len(desk.endpoint.requests) == 1
    [letter] = (await list_dead_letters(desk.service.database, "default", OPEN, PAGE))["data"]
    assert (letter["reason"], letter["last_error"]) == ("gone", DELETED)
    assert (letter["raw"], letter["raw_bytes"]) == (None, 0)
    assert await show_dead_letter(desk.service.database, "default", letter["id"]) == {
        **letter, "delivery": ANY, "history": ANY,
    }  # fmt: skip
    with pytest.raises(RefusedError, match=f"^{DELETED}; nothing is left to send$"):
        await desk.service.retry_dead_letter(OPERATOR, letter["id"])


async def test_a_dead_letter_whose_mail_was_deleted_later_is_shown_and_not_retried(
    desk: Desk,
) -> None:
    desk.endpoint.behaviours["/no"] = answers(400)
    await add_route(desk, "/no")
    inbox = await desk.post.make("ann@in.test")
    await desk.post.send(make_mail(MAIL))
    await desk.until_done()
    await delete_inbox(desk, inbox.id)

    [letter] = (await list_dead_letters(desk.service.database, "default", OPEN, PAGE))["data"]

    assert (letter["reason"], letter["raw"]) == ("permanent", None)
    with pytest.raises(RefusedError, match=f"^{DELETED}; nothing is left to send$"):
        await desk.service.retry_dead_letter(OPERATOR, letter["id"])


async def test_a_delivery_whose_event_was_forgotten_is_erased_by_its_key(desk: Desk) -> None:
    await desk.add_route(events=["inbound"])
    inbox = await desk.post.make("ann@in.test")
    await desk.post.send(make_mail(MAIL))
    await desk.until_done()
    [event] = await desk.rows(EVENTS)
    database = desk.service.database
    body = {"body": event["body"]}
    await database.write(lambda tx: tx.execute(update(DELIVERIES).values(**body)))
    await database.write(lambda tx: tx.execute(EVENTS.delete()))
    assert await stored(desk) == ["deliveries"]

    counts = await delete_inbox(desk, inbox.id)

    assert counts.deliveries == 1
    assert await stored(desk) == []


async def test_a_mail_that_is_deleted_while_it_is_read_leaves_no_body(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.add_route(events=["inbound"])
    inbox = await desk.post.make("ann@in.test")
    deleted = asyncio.Event()
    loop = asyncio.get_running_loop()
    read = digest_mail.entry_of

    def slow(*arguments: Any) -> Any:
        entry = read(*arguments)
        asyncio.run_coroutine_threadsafe(delete_inbox(desk, inbox.id), loop).result(60)
        loop.call_soon_threadsafe(deleted.set)
        return entry

    monkeypatch.setattr(digest_mail, "entry_of", slow)
    # Large enough to be read beside the loop, which deletes it meanwhile.
    await desk.post.send(make_mail(MAIL + b"x" * (digest_mail.INLINE_BYTES_MAX + 1)))
    await asyncio.wait_for(deleted.wait(), 60)

    async def is_recorded() -> bool:
        return bool(await desk.rows(DELIVERIES))

    await desk.until(is_recorded)

    async def is_erased() -> bool:
        return await stored(desk) == []

    await desk.until(is_erased)


async def test_inboxes_that_are_deleted_while_all_is_under_way_leave_no_body(desk: Desk) -> None:
    routes = [f"/r{number}" for number in range(3)]
    for number, path in enumerate(routes):
        desk.endpoint.behaviours[path] = answers([200, 503, 400][number])
        await add_route(desk, path, waits_s=[0.01, 0.01])
    boxes = [await desk.post.make(f"n{number}@in.test") for number in range(4)]

    async def fill(number: int) -> None:
        for mail in range(5):
            await desk.post.send(make_mail(MAIL + b"%d" % mail, f"n{number}@in.test"))

    await asyncio.gather(*(fill(number) for number in range(4)))
    redelivered = desk.service.reruns.make("default", RerunKind.REDELIVERY, RerunFilter())
    await asyncio.gather(redelivered, *(delete_inbox(desk, box.id) for box in boxes))
    await desk.until_done()

    async def is_erased() -> bool:
        return await stored(desk) == []

    await desk.until(is_erased)
    assert await desk.rows(MESSAGES) == []
