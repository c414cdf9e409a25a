"""Requests that wait keep nothing of the application, miss nothing, and leave nothing behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Request, Response
from starlette.types import Message, Receive, Scope, Send

from mailonce.edge.http.parking import ParkingApp, parking_of
from mailonce.errors import MailonceError, UnavailableError
from mailonce.inbox.waiting import InboxReaders, InboxWait
from mailonce.store.dialects.contract import Database
from tests.inbox.conftest import Post

SCOPE: Scope = {"type": "http", "method": "GET", "path": "/wait", "headers": []}


class Bell:
    """Something to wait for."""

    def __init__(self) -> None:
        self.is_open = True
        self.call: Callable[[], object] | None = None
        self.has_rung = False

    def then(self, call: Callable[[], object]) -> None:
        self.call = call
        if self.has_rung:
            call()

    def close(self) -> None:
        self.is_open = False

    def ring(self) -> None:
        self.has_rung = True
        if self.call is not None:
            self.call()


class Waiting:
    """An application that has something to say at a certain look, or when its time is over."""

    def __init__(self, wait_s: float = 1_000.0, *, answers_at: int = 2) -> None:
        self.wait_s = wait_s
        self.answers_at = answers_at
        self.bells: list[Bell] = []
        self.requests = self.looks = 0
        # What comes in the way of the framework, or of a later look.
        self.broken: Exception | None = None
        self.error: MailonceError | None = None
        # Of the configuration.
        self.version = 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parking = parking_of(Request(scope))
        self.requests += 1
        scope["state"] = "of the framework"

        async def look() -> Response:
            self.looks += 1
            if self.looks > 1 and self.error is not None:
                raise self.error
            if self.looks >= self.answers_at or not parking.left_s(self.wait_s):
                return Response("news")
            self.bells.append(Bell())
            return parking.park(self.bells[-1])

        try:
            answer = await parking.first(look)
        except MailonceError as error:
            answer = Response(str(error), 503)
        await answer(scope, receive, send)
        if self.broken is not None:
            raise self.broken


class Client:
    """A client: what it got, and whether it is still there."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.hung_up = asyncio.Event()
        self._body: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive(self) -> Message:
        if self._body:
            return self._body.pop()
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.got.append(message)

    @property
    def statuses(self) -> list[Any]:
        return [one["status"] for one in self.got if one["type"] == "http.response.start"]


async def settle() -> None:
    """Let everything happen that needs no further event."""
    for _ in range(10):
        await asyncio.sleep(0)


async def begin(app: Waiting) -> "tuple[asyncio.Task[None], Client]":
    client = Client()
    task = asyncio.create_task(
        ParkingApp(app, lambda: app.version)(dict(SCOPE), client.receive, client.send)
    )
    await settle()
    return task, client


async def test_a_parked_request_is_answered_when_it_is_woken() -> None:
    app = Waiting()
    task, client = await begin(app)
    [bell] = app.bells
    was_quiet, was_open = not client.got, bell.is_open

    bell.ring()
    await task

    assert was_quiet
    assert was_open
    assert not bell.is_open
    assert client.statuses == [200]
    assert (app.requests, app.looks) == (1, 2)


async def test_a_look_that_finds_nothing_parks_again() -> None:
    app = Waiting(answers_at=4)
    task, client = await begin(app)

    for _ in range(3):
        app.bells[-1].ring()
        await settle()
    await task

    assert client.statuses == [200]
    assert [bell.is_open for bell in app.bells] == [False] * 3


async def test_an_error_of_a_later_look_is_told_by_the_application() -> None:
    app = Waiting()
    task, client = await begin(app)
    app.error = UnavailableError("the database is away")

    app.bells[0].ring()
    await task

    assert client.statuses == [503]
    # Not only by the look: asked anew, it had no time to wait.
    assert (app.requests, len(app.bells)) == (2, 1)


async def test_where_keys_may_have_changed_the_application_is_asked_anew() -> None:
    app = Waiting(answers_at=3)
    task, client = await begin(app)
    app.version += 1

    app.bells[0].ring()
    await settle()
    # It has its time left, and waits on.
    before = (app.requests, app.looks, client.statuses)
    app.bells[1].ring()
    await task

    assert before == (2, 2, [])
    assert (app.requests, app.looks, client.statuses) == (2, 3, [200])
    assert not any(bell.is_open for bell in app.bells)


async def test_it_is_answered_when_its_time_is_over() -> None:
    app = Waiting(wait_s=0.01, answers_at=1_000_000)
    task, client = await begin(app)

    await task

    assert client.statuses == [200]
    assert not any(bell.is_open for bell in app.bells)


async def test_what_happens_before_it_waits_is_not_missed() -> None:
    app = Waiting()

    async def rung_at_once(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, receive, send)
        for bell in app.bells:
            bell.ring()

    client = Client()
    await ParkingApp(rung_at_once, lambda: 1)(dict(SCOPE), client.receive, client.send)

    assert client.statuses == [200]


async def test_being_woken_twice_in_a_turn_is_once() -> None:
    app = Waiting()
    task, client = await begin(app)
    [bell] = app.bells

    bell.ring()
    bell.ring()
    asyncio.get_running_loop().call_soon(bell.ring)
    await task

    assert client.statuses == [200]
    assert app.looks == 2


async def test_a_client_that_hangs_up_is_waited_for_no_longer() -> None:
    app = Waiting()
    task, client = await begin(app)

    client.hung_up.set()
    await task

    assert client.got == []
    assert app.looks == 1
    assert not app.bells[0].is_open


async def test_a_request_that_fails_after_it_parked_leaves_nothing_behind() -> None:
    app = Waiting()
    app.broken = ValueError("of the framework")

    with pytest.raises(ValueError, match="framework"):
        await (await begin(app))[0]

    assert not app.bells[0].is_open


async def test_a_server_that_stops_ends_a_wait() -> None:
    app = Waiting()
    task, _ = await begin(app)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not app.bells[0].is_open


async def test_a_reader_that_found_nothing_keeps_its_place_until_it_closes(
    database: Database,
) -> None:
    post = Post(database)
    inbox = await post.make("ann@in.test")
    readers = InboxReaders(database, post.clock)

    async def look() -> object:
        return await readers.look(inbox.id, workspace="default", after=0, limit=1, waits=True)

    wait = await look()
    assert isinstance(wait, InboxWait)
    calls: list[int] = []
    wait.then(lambda: calls.append(1))
    waiting = readers.waiting
    readers.release()
    wait.close()
    wait.close()

    assert (waiting, readers.waiting, len(calls)) == (1, 0, 1)
    # Nobody waits any more.
    assert not isinstance(await look(), InboxWait)
    assert readers.waiting == 0


async def test_a_wait_that_was_woken_before_somebody_listens_calls_at_once(
    database: Database,
) -> None:
    post = Post(database)
    inbox = await post.make("ann@in.test")
    readers = InboxReaders(database, post.clock)
    wait = await readers.look(inbox.id, workspace="default", after=0, limit=1, waits=True)
    assert isinstance(wait, InboxWait)
    readers.release()
    calls: list[int] = []

    wait.then(lambda: calls.append(1))

    assert calls == [1]
