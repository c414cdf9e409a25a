"""One request that waits, and its answer: the short way for whoever waits for mail.

Thousands wait at the same time, and each asks again when its time is over. The API's way takes a
millisecond, and some ten kilobytes while it waits. Here a request that waits is a record of its
connection: no task, no coroutine, no headers. A look is a short task, and one write answers.

Whatever is not plain goes the API's way from its beginning, which has the words for it: a key that
is not known here, a look that fails, a key that was revoked meanwhile. For that the request's
bytes are kept. As with `parking`, nothing is missed: what is waited for is in its list from before
the look that found nothing. A client that hangs up ends the wait at once.
"""

import asyncio
from typing import Protocol

from mailonce.core.access import READS, READS_EXPECTATIONS, Caller
from mailonce.edge.http.looks import ExpectationLook, NamedInboxLook, WaitLook
from mailonce.edge.http.parking import Wait
from mailonce.edge.http.query import number_of
from mailonce.edge.http.wait_request import WaitRequest, read_wait, with_wait
from mailonce.errors import MailonceError
from mailonce.inbox.expectations.expectation_parts import expectation_id
from mailonce.inbox.waiting import WAIT_S_MAX
from mailonce.service import Service
from mailonce.views.paging import LIMIT_DEFAULT, LIMIT_MAX

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n%s"
_CLOSE = b"connection: close\r\n"
_INBOX_QUERY = frozenset({"after", "limit"})


class WaitLine(Protocol):
    """The connection on which a request came."""

    service: Service
    transport: asyncio.Transport

    def start_task(self, cycle: "WaitCycle") -> None:
        """Run a look in a task."""

    def read_again(self, data: bytes, *, keep_alive: bool) -> None:
        """Hand a request to the API from its beginning."""

    def answered(self) -> None:
        """Go on after an answer."""

    def hang_up(self) -> None:
        """Close after an answer."""


class WaitCycle:
    """A request that waits, with the attributes that uvicorn looks at."""

    __slots__ = (
        "_data", "_line", "_look", "_looks", "_timer", "_until_s", "_version", "_wait",
        "disconnected", "keep_alive", "response_complete",
    )  # fmt: skip
    # It is answered in one write.
    response_started = False

    def __init__(
        self, line: WaitLine, data: bytes, look: WaitLook, wait_s: float, version: int
    ) -> None:
        self._line = line
        self._data = data
        self._look = look
        self._looks = 0
        self._until_s = asyncio.get_running_loop().time() + wait_s
        # Of the configuration that knew the key.
        self._version = version
        self._wait: Wait | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.keep_alive = True
        self.disconnected = False
        self.response_complete = False

    @property
    def message_event(self) -> "WaitCycle":
        """Stand for the event that uvicorn sets when the client has gone."""
        return self

    def set(self) -> None:
        """Wait no longer."""
        self._leave()

    async def run_asgi(self, app: object) -> None:
        """Look, and answer or wait; the name is uvicorn's."""
        del app
        service = self._line.service
        left_s = self._until_s - asyncio.get_running_loop().time()
        if service.snapshot.version != self._version and not self._is_still_known():
            self._hand_on(left_s)
            return
        self._looks += 1
        try:
            outcome = await self._look.look(service, waits=left_s > 0)
        except asyncio.CancelledError:
            self._line.hang_up()
            raise
        except Exception:  # noqa: BLE001 - the API has the words for it, or logs it
            # What fails later is told at once, as it would be there.
            self._hand_on(left_s if self._looks == 1 else 0.0)
            return
        if not isinstance(outcome, bytes):
            self._park(outcome)
        elif not self.disconnected:
            self._answer(outcome)

    def _is_still_known(self) -> bool:
        """Say whether the key is in force after the configuration has changed."""
        service, request = self._line.service, read_wait(self._data)
        assert request is not None, "it was read before"
        self._version = service.snapshot.version
        return service.manage.keys.known_caller(request.secret) == self._look.caller

    def _park(self, wait: Wait) -> None:
        if self.disconnected:
            wait.close()
            return
        self._wait = wait
        self._timer = asyncio.get_running_loop().call_at(self._until_s, self._look_again)
        wait.then(self._look_again)

    def _look_again(self) -> None:
        self._leave()
        self._line.start_task(self)

    def _leave(self) -> None:
        wait, self._wait = self._wait, None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if wait is not None:
            wait.close()

    def _hand_on(self, left_s: float) -> None:
        if not self.disconnected:
            self.response_complete = True
            self._line.read_again(with_wait(self._data, left_s), keep_alive=self.keep_alive)

    def _answer(self, content: bytes) -> None:
        line = self._line
        self.response_complete = True
        if line.transport.is_closing():
            return
        line.transport.write(_HEAD % (len(content), b"" if self.keep_alive else _CLOSE, content))
        if self.keep_alive:
            line.answered()
        else:
            line.hang_up()


def begin_wait(line: WaitLine, data: bytes) -> WaitCycle | None:
    """Take a request that waits; None where it goes the API's way."""
    service = line.service
    # Read before the key is looked up: a change in between counts.
    version = service.snapshot.version
    request = read_wait(data)
    if request is None or not 0 < request.wait_s <= WAIT_S_MAX:
        return None
    caller = service.manage.keys.known_caller(request.secret)
    try:
        look = None if caller is None else _look_of(request, caller)
    except MailonceError:
        return None
    return None if look is None else WaitCycle(line, data, look, request.wait_s, version)


def _look_of(request: WaitRequest, caller: Caller) -> WaitLook | None:
    if request.noun == "expectations":
        if request.query or caller.scope not in READS_EXPECTATIONS:
            return None
        return ExpectationLook(caller, expectation_id(request.name))
    query = request.query
    limit = number_of("limit", query.get("limit", str(LIMIT_DEFAULT)), least=1)
    if not query.keys() <= _INBOX_QUERY or limit > LIMIT_MAX or caller.scope not in READS:
        return None
    return NamedInboxLook(caller, request.name, number_of("after", query.get("after", "0")), limit)
