"""One request to send and its answer, read whole from one packet: the short way for a mail."""

import asyncio

from mailonce.core.access import SENDS, Caller
from mailonce.edge.http import submit
from mailonce.edge.http.arrival_cycle import NO_ROOM, ArrivalCycle, written
from mailonce.edge.http.request import ArrivalRequest
from mailonce.edge.http.submit import SubmissionAnswer
from mailonce.send.drive_submissions import SubmitResult
from mailonce.send.submit import SubmitFlow, SubmitStep
from mailonce.service import Service

# Whatever is asked for in another way than by its own key goes the long way.
_UNUSUAL = frozenset({"mailonce-workspace"})


class SubmissionCycle(ArrivalCycle):
    """Submits without a task, unless something must be waited for, and answers with one write."""

    __slots__ = ("_is_list", "_waiting_for")

    def begin(self, request: ArrivalRequest, caller: Caller) -> None:
        """Take a request of a caller who may send."""
        line = self._line
        if not line.hold_judged(len(request.body)):
            line.turn.send_at_end(self._send, written(NO_ROOM, keep_alive=self.keep_alive))
            return
        headers = request.headers
        keys = {headers[name] for name in submit.KEY_NAMES if name in headers}
        try:
            wanted = submit.read(caller, request.body, keys)
        except Exception as error:  # noqa: BLE001 - as any other request of the API
            self._answer(submit.trouble(error))
            return
        self._is_list = wanted.is_list
        submissions = line.service.sends.submissions
        submissions.begin(caller.workspace, wanted.request, _Requester(self), by=caller.key)

    def answer_with(self, result: SubmitResult) -> None:
        """Answer with what became of the request."""
        try:
            if isinstance(result, Exception):
                answer = submit.trouble(result)
            else:
                answer = submit.answer_of(self._line.service, result, is_list=self._is_list)
        except Exception as error:  # noqa: BLE001 - as any other request of the API
            answer = submit.trouble(error)
        self._answer(answer)

    def wait_for(self, flow: SubmitFlow, step: SubmitStep) -> None:
        """Go on in a task."""
        self._waiting_for = flow, step
        self._line.start_task(self)

    async def run_asgi(self, app: object) -> None:
        """Wait for what the request needs; the name is uvicorn's."""
        del app
        flow, step = self._waiting_for
        result: SubmitResult
        try:
            result = await self._line.service.sends.submissions.drive(flow, step)
        except asyncio.CancelledError:
            self._line.hang_up()
            raise
        except Exception as error:  # noqa: BLE001 - as any other request of the API
            result = error
        self.answer_with(result)

    def _answer(self, answer: SubmissionAnswer) -> None:
        self._line.turn.send_at_end(self._send, answer.written())


class _Requester:
    """A request to send, as its driver sees it."""

    __slots__ = ("answer", "wait")

    def __init__(self, cycle: SubmissionCycle) -> None:
        self.answer = cycle.answer_with
        self.wait = cycle.wait_for


def caller_of(service: Service, request: ArrivalRequest) -> Caller | None:
    """Give who asks, where it is a key that this process knows and that may send."""
    headers = request.headers
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not _UNUSUAL.isdisjoint(headers) or request.query:
        return None
    caller = service.manage.keys.known_caller(secret.strip())
    return caller if caller is not None and caller.scope in SENDS else None
