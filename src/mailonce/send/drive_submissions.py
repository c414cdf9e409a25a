"""Drive requests to send: many side by side without a task for each, or one to its end.

What all of them wait for, a look into the ledger and the group commit, is done for many at once and
answered by callbacks. Whatever else one must wait for (a template to be rendered, a copy to be
read) it waits for in a task, from where it stands.
"""

from functools import partial
from typing import Any, Protocol

from mailonce.core.ledger.entry import Entry
from mailonce.core.sends.send_request import SendRequest
from mailonce.pipeline.record import FullError, Recorder
from mailonce.send.ledger_look import LedgerLook, LedgerQuery
from mailonce.send.submit import SubmitFlow, SubmitStep, SubmittedSend, Submitter

SubmitResult = list[SubmittedSend] | Exception


class SubmitRequester(Protocol):
    """Who asked for something to be sent.

    `answer` is called exactly once, unless `wait` is: then `Submissions.drive` goes on from there.
    """

    def answer(self, result: SubmitResult, /) -> None:
        """Take the sends, or what kept them from being submitted."""

    def wait(self, flow: SubmitFlow, step: SubmitStep, /) -> None:
        """Have the flow driven to its end, in a task."""


class Submissions:
    """Drives the flows of one process."""

    def __init__(self, submitter: Submitter, recorder: Recorder, look: LedgerLook) -> None:
        self._submitter = submitter
        self._recorder = recorder
        self._look = look

    async def submit(self, workspace: str, request: SendRequest, *, by: str) -> list[SubmittedSend]:
        """Submit a request, and wait until it is durable.

        Raises: as `Submitter.flow` does.
        """
        flow = self._submitter.flow(workspace, request, by=by)
        return await self.drive(flow)

    def begin(
        self, workspace: str, request: SendRequest, requester: SubmitRequester, *, by: str
    ) -> None:
        """Submit a request; its requester is told once it is durable."""
        self._go_on(self._submitter.flow(workspace, request, by=by), requester, None)

    async def drive(self, flow: SubmitFlow, step: SubmitStep | None = None) -> list[SubmittedSend]:
        """Drive a flow to its end; `step` is the one that it waits for, if it was begun."""
        try:
            while True:
                try:
                    result = await self._do(step)
                except Exception as error:  # noqa: BLE001 - the flow decides what it means
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as end:
            submitted: list[SubmittedSend] = end.value
            return submitted
        finally:
            flow.close()

    def _go_on(self, flow: SubmitFlow, requester: SubmitRequester, result: Any) -> bool:
        """Give a flow what it waited for, and see to what it waits for next."""
        try:
            step = flow.throw(result) if isinstance(result, Exception) else flow.send(result)
        except StopIteration as end:
            requester.answer(end.value)
        except Exception as error:  # noqa: BLE001 - an outermost loop: it is the answer
            requester.answer(error)
        else:
            if isinstance(step, LedgerQuery):
                self._look.ask.put(step, partial(self._go_on, flow, requester))
            elif isinstance(step, Entry):
                self._record(step, flow, requester)
            else:
                requester.wait(flow, step)
        return True

    def _record(self, entry: Entry, flow: SubmitFlow, requester: SubmitRequester) -> None:
        def tell(result: Any) -> None:
            self._go_on(flow, requester, result)

        try:
            self._recorder.submit(entry, tell)
        except FullError as error:
            self._go_on(flow, requester, error)

    async def _do(self, step: SubmitStep | None) -> Any:
        match step:
            case None:
                return None
            case LedgerQuery():
                return await self._look.ask(step)
            case Entry():
                return await self._recorder.record(step)
            case _:
                return await step
