"""Requests that wait for something keep nothing of the framework while they do.

Most that wait take a shorter way (`wait_cycle`); these have a child key, a filter, or come in
pieces.

Inside the framework a request is dozens of coroutines, contexts and records, some 40 kB, and
thousands of clients may wait at the same time. So a path that has nothing to answer yet parks its
request: it says what is waited for and how to look again, and returns; all of that is freed. When
something happened, or the time is over, its look gives the answer, or parks again. Where the look
fails, the application is handed the request once more from its beginning, with no time left: it
knows how each caller is told of an error. So it is, with the time that is left, where keys may have
changed meanwhile: one that was revoked sees nothing of what came after.

Nothing is missed: what is waited for is in its list from before the look that found nothing, and
is taken from it before the next look puts it there again. A request with a body cannot be parked,
since its body was read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mailonce.errors import MailonceError

_KEY = "mailonce.parking"


class Wait(Protocol):
    """What a request waits for."""

    def then(self, call: Callable[[], object]) -> None:
        """Call somebody when it happens, or now where it has."""

    def close(self) -> None:
        """Wait no longer."""


Look = Callable[[], Awaitable[Response]]


class ChangedError(Exception):
    """Keys may have changed while a request waited."""


class Parking:
    """One request, from its first look to its answer."""

    __slots__ = ("_look", "_until_s", "_wait")

    def __init__(self) -> None:
        self._wait: Wait | None = None
        self._look: Look | None = None
        self._until_s: float | None = None

    def left_s(self, wait_s: float) -> float:
        """Say how much is left of the time for which the request asked with its first look."""
        now_s = asyncio.get_running_loop().time()
        if self._until_s is None:
            self._until_s = now_s + wait_s
        return max(0.0, self._until_s - now_s)

    async def first(self, look: Look) -> Response:
        """Look; the same is done again whenever the request was parked and is woken."""
        self._look = look
        return await look()

    def park(self, wait: Wait) -> Response:
        """Give what a look returns that has found nothing to answer yet."""
        assert self._wait is None, "a request waits for one thing"
        self._wait = wait
        return _NoAnswer()

    def answered(self, outcome: bytes | Wait) -> Response:
        """Give what a look returns: its answer, as JSON, or nothing yet."""
        if isinstance(outcome, bytes):
            return Response(outcome, media_type="application/json")
        return self.park(outcome)

    @property
    def is_parked(self) -> bool:
        return self._wait is not None

    def close(self) -> None:
        """Wait for nothing any more, and have no time left."""
        self._until_s = 0.0
        wait, self._wait, self._look = self._wait, None, None
        if wait is not None:
            wait.close()

    async def answer(self, receive: Receive, has_changed: Callable[[], bool]) -> Response | None:
        """Wait until there is something to answer; None where the client hung up.

        Raises: MailonceError, as the look does; ChangedError where the caller must be asked for its
        key again.
        """
        response = None
        while self._wait is not None:
            assert self._look is not None, "the first look has parked"
            wait, self._wait = self._wait, None
            if not await self._until_woken(wait, receive):
                return None
            if has_changed():
                raise ChangedError
            response = await self._look()
        return response

    async def _until_woken(self, wait: Wait, receive: Receive) -> bool:
        """Wait; say whether to look again, which nobody wants whose client hung up."""
        try:
            async with asyncio.timeout_at(self._until_s) as limit:
                # No task beside this one, and no event: thousands wait.
                wait.then(partial(_end, limit))
                await _disconnect(receive)
                return False
        except TimeoutError:
            return True
        finally:
            wait.close()


class _NoAnswer(Response):
    """Sends nothing: the request is answered later."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send nothing."""


class ParkingApp:
    """An application whose requests can be parked.

    `version` is that of the configuration, which says whose keys are in force.
    """

    def __init__(self, app: ASGIApp, version: Callable[[], int]) -> None:
        self._app = app
        self._version = version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the application, and answer it later where it was parked."""
        parking = Parking()
        try:
            while await self._is_asked_again(scope, receive, send, parking):
                pass
        finally:
            # Nothing is left to the garbage collector: a look knows its parking.
            parking.close()

    async def _is_asked_again(
        self, scope: Scope, receive: Receive, send: Send, parking: Parking
    ) -> bool:
        """Answer a request; say whether it begins anew instead, because keys may have changed."""
        # Read before the caller is asked for its key: a change in between counts.
        version = self._version()
        await self._ask(scope, receive, send, parking)
        if not parking.is_parked:
            return False
        try:
            answer = await parking.answer(receive, lambda: self._version() != version)
        except ChangedError:
            return True
        except MailonceError:
            parking.close()
            await self._ask(scope, receive, send, parking)
            return False
        if answer is not None:
            await answer(scope, receive, send)
        return False

    async def _ask(self, scope: Scope, receive: Receive, send: Send, parking: Parking) -> None:
        # A copy, since the framework leaves its own things in it.
        await self._app({**scope, _KEY: parking}, receive, send)


def parking_of(request: Request) -> Parking:
    parking = request.scope[_KEY]
    assert isinstance(parking, Parking), "the application stands behind `ParkingApp`"
    return parking


def _end(limit: asyncio.Timeout) -> None:
    # One whose time is over in this very turn is on its way already.
    if not limit.expired():
        limit.reschedule(0.0)


async def _disconnect(receive: Receive) -> None:
    """Return when the client has hung up; it has sent no body."""
    while (await receive())["type"] != "http.disconnect":
        pass
