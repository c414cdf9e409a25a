"""A server that dies while its sends are at certain points of their way.

    python crashing_sends.py '{"points": {"answer": 3}}' serve …

A send to `…@answer.example.com` waits where its answer was read. Once as many wait at each point
as are named, the process is sent the signal. A `mutant` takes a line of defence away as well.
"""

import asyncio
import json
import os
import re
import signal
import sys
from typing import Any

from mailonce.core.sends import send_decision
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.sends.sending import HttpRequest, NotFound
from mailonce.edge.cli.main import run
from mailonce.net.connection import OutgoingConnection
from mailonce.net.smtp_session import SmtpSession
from mailonce.net.transmit import Transmitter
from mailonce.send import settle_unknown
from mailonce.send.flight_book import FlightBook, InFlight
from mailonce.send.pauses import PauseWatch
from mailonce.send.submit import Submitter
from mailonce.store.schema.send_tables import SEND_TABLE

POINTS = ("submit", "lease", "mark", "call", "first_byte", "last_byte", "answer", "record")
_POINT = re.compile(r"@(\w+)\.example\.com")


class Points:
    """Where sends wait until the process is sent a signal."""

    def __init__(self, sends: dict[str, int], sent: signal.Signals) -> None:
        self._left = dict(sends)
        self._signal = sent
        self._is_over = False

    def is_at(self, point: str, text: str | bytes) -> bool:
        """Say whether a send with this text is to wait at a point."""
        match = _POINT.search(text.decode("latin-1") if isinstance(text, bytes) else text)
        return match is not None and match[1] == point.replace("_", "") and point in self._left

    def reached(self, point: str, many: int = 1) -> None:
        """Note so many more sends; the last of them is the end."""
        if self._is_over:
            return
        self._left[point] -= many
        if not any(self._left.values()):
            self._is_over = True
            os.kill(os.getpid(), self._signal)

    async def wait(self, point: str, many: int = 1) -> None:
        """Wait here; a process that was stopped goes on when it is continued."""
        self.reached(point, many)
        while not self._is_over or self._signal is signal.SIGKILL:
            await asyncio.sleep(0.01)

    def arm(self) -> None:
        """Let sends wait at all points."""
        self._arm_submit()
        self._arm_book()
        self._arm_transmit()
        self._arm_http()
        self._arm_smtp()

    def _arm_submit(self) -> None:
        """After the commit of a request, before its answer."""
        points, judge = self, Submitter._judge

        def waiting(self: Any, workspace: str, request: Any, *arguments: Any) -> Any:
            if points.is_at("submit", request.recipients[0].address):
                yield points.wait("submit", len(request.recipients))
            return (yield from judge(self, workspace, request, *arguments))

        Submitter._judge = waiting  # type: ignore[assignment, method-assign]

    def _arm_book(self) -> None:
        """Under a lease; after the commit that says "in flight"; after an outcome is written."""
        points, init = self, FlightBook.__init__

        def armed(self: Any, *arguments: Any) -> None:
            init(self, *arguments)
            read, begin, end, later = self.read, self.begin, self.end, self.end_later
            recorded: set[bytes] = set()

            async def read_and_wait(key: bytes) -> Any:
                job = await read(key)
                if job is not None and points.is_at("submit", job.address):
                    # No worker is quicker than the answer to its request.
                    await asyncio.Event().wait()
                if job is not None and points.is_at("lease", job.address):
                    await points.wait("lease")
                if key in recorded:
                    # It is where its outcome was written, and stays there.
                    await asyncio.Event().wait()
                return job

            async def begin_and_wait(mark: Any) -> Any:
                result = await begin(mark)
                if points.is_at("mark", mark.recipient):
                    await points.wait("mark")
                return result

            async def end_and_wait(job: Any, *arguments: Any) -> Any:
                result = await end(job, *arguments)
                if points.is_at("record", job.address):
                    await points.wait("record")
                return result

            def end_later(job: Any, *arguments: Any) -> Any:
                written = later(job, *arguments)
                if points.is_at("record", job.address) and job.key not in recorded:
                    recorded.add(job.key)
                    written.add_done_callback(lambda _: points.reached("record"))
                return written

            self.read, self.begin, self.end = read_and_wait, begin_and_wait, end_and_wait
            self.end_later = end_later

        FlightBook.__init__ = armed  # type: ignore[assignment, method-assign]

    def _arm_transmit(self) -> None:
        """Before a call is begun; after its answer was read."""
        points, transmit = self, Transmitter.transmit

        async def waiting(self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
            text = request.body if isinstance(request, HttpRequest) else f"<{request.rcpt_to}>"
            if points.is_at("call", text):
                await points.wait("call")
            outcome = await transmit(self, request, *arguments, **named)
            if points.is_at("answer", text):
                await points.wait("answer")
            return outcome

        Transmitter.transmit = waiting  # type: ignore[method-assign]

    def _arm_http(self) -> None:
        """After the first byte of a request; after its last one, with the answer unread."""
        points, ask = self, OutgoingConnection.ask

        def waiting(self: Any, request: bytes, **named: Any) -> Any:
            if points.is_at("first_byte", request):
                reply = ask(self, request[:1], **named)
                points.reached("first_byte")
                return reply
            reply = ask(self, request, **named)
            if not points.is_at("last_byte", request):
                return reply
            points.reached("last_byte")
            return asyncio.get_running_loop().create_future()

        OutgoingConnection.ask = waiting  # type: ignore[method-assign]

    def _arm_smtp(self) -> None:
        """After the first byte of a body; after the final dot, with its reply unread."""
        points = self
        begin, send_body, end_body = SmtpSession.begin, SmtpSession.send_body, SmtpSession.end_body
        recipients: dict[int, str] = {}

        async def begin_and_note(self: Any, request: Any) -> None:
            recipients[id(self)] = request.rcpt_to
            await begin(self, request)

        async def send_and_wait(self: Any, message: bytes) -> None:
            if not points.is_at("first_byte", recipients[id(self)]):
                return await send_body(self, message)
            await self.connection.send(message[:1])
            return await points.wait("first_byte")

        async def end_and_wait(self: Any) -> Any:
            if not points.is_at("last_byte", recipients[id(self)]):
                return await end_body(self)
            self.connection._transport.write(b".\r\n")
            points.reached("last_byte")
            return await asyncio.Event().wait()

        SmtpSession.begin = begin_and_note  # type: ignore[method-assign]
        SmtpSession.send_body = send_and_wait  # type: ignore[method-assign]
        SmtpSession.end_body = end_and_wait  # type: ignore[method-assign]


def mark_after_the_first_byte() -> None:
    """Say "in flight" without writing it down."""

    async def begin(self: Any, marks: Any) -> Any:
        del self
        return [InFlight() for _ in marks]

    FlightBook._begin = begin  # type: ignore[method-assign]


def expired_flight_is_pending() -> None:
    """Take what was in flight for pending."""

    def lost(row: Any) -> dict[str, Any]:
        return {"send_state": SendState.PENDING, "lane": row["lane"]}

    object.__setattr__(SEND_TABLE, "lost", lost)


def absence_is_proof() -> None:
    """Take a mail that a lookup does not show for one that was not sent."""
    real = send_decision.after_lookup

    def after_lookup(flight: Any, outcome: Any, call: Any, rule: Any) -> Any:
        if isinstance(outcome, NotFound):
            return send_decision.SendChange(state=SendState.PENDING)
        return real(flight, outcome, call, rule)

    settle_unknown.after_lookup = after_lookup  # type: ignore[attr-defined]


def fail_over_from_unknown() -> None:
    """Let the next sender take what may have been sent."""

    def unknown(reason: str, wait_ms: Any, call: Any, rule: Any) -> Any:
        del wait_ms, call
        return send_decision.SendChange(
            state=SendState.PENDING, sender=rule.next_sender, reason=reason
        )

    send_decision._unknown = unknown


def pauses_are_not_noticed() -> None:
    """Begin whatever was marked, however long ago."""

    def tick(self: Any) -> None:
        self.ticked_s = 0.0

    PauseWatch.tick = tick  # type: ignore[method-assign]


MUTANTS = {
    one.__name__: one
    for one in (
        mark_after_the_first_byte,
        expired_flight_is_pending,
        absence_is_proof,
        fail_over_from_unknown,
        pauses_are_not_noticed,
    )
}

if __name__ == "__main__":
    wish = json.loads(sys.argv.pop(1))
    if "mutant" in wish:
        MUTANTS[wish["mutant"]]()
    if "points" in wish:
        Points(wish["points"], signal.Signals[wish.get("signal", "SIGKILL")]).arm()
    run()
