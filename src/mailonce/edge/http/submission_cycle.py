"""One request to send and its answer, read whole from one packet: the short way for a mail."""

import asyncio

from mailonce.core.access import SENDS, Caller
from mailonce.edge.http import submit
from mailonce.edge.http.arrival_cycle import NO_ROOM, ArrivalCycle
from mailonce.edge.http.request import ArrivalRequest
from mailonce.service import Service

# Whatever is asked for in another way than by its own key goes the long way.
_UNUSUAL = frozenset({"mailonce-workspace"})


class SubmissionCycle(ArrivalCycle):
    """Submits in a task, and answers with one write at the end of a turn."""

    __slots__ = ("_caller", "_request")

    def begin(self, request: ArrivalRequest, caller: Caller) -> None:
        """Take a request of a caller who may send."""
        self._request, self._caller = request, caller
        if self._line.hold_judged(len(request.body)):
            self._line.start_task(self)
        else:
            self.answer(NO_ROOM)

    async def run_asgi(self, app: object) -> None:
        """Submit it; the name is uvicorn's."""
        del app
        request, line = self._request, self._line
        headers = request.headers
        keys = {headers[name] for name in submit.KEY_NAMES if name in headers}
        try:
            answer = await submit.answer(line.service, self._caller, request.body, keys)
        except asyncio.CancelledError:
            line.hang_up()
            raise
        line.turn.send_at_end(self._send, answer.written())


def caller_of(service: Service, request: ArrivalRequest) -> Caller | None:
    """Give who asks, where it is a key that this process knows and that may send."""
    headers = request.headers
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not _UNUSUAL.isdisjoint(headers) or request.query:
        return None
    caller = service.manage.keys.known_caller(secret.strip())
    return caller if caller is not None and caller.scope in SENDS else None
