"""A server that dies at one point of a send's way: `python crashing_sends.py POINT serve …`.

A second word, behind a plus sign, takes a line of defence away as well.
"""

import os
import signal
import sys
from typing import Any

from mailonce.core.sends.send_lifecycle import SendState
from mailonce.edge.cli.main import run
from mailonce.net.transmit import Transmitter
from mailonce.send.flight_book import FlightBook, InFlight
from mailonce.send.sends import Sends
from mailonce.send.submit import Submitter
from mailonce.store.schema.send_tables import SEND_TABLE

POINTS: dict[str, tuple[Any, str, bool]] = {
    "submit": (Submitter, "_record", True),
    "lease": (Sends, "run", False),
    "mark": (FlightBook, "_begin", True),
    "answer": (Transmitter, "transmit", True),
    "record": (FlightBook, "_end_once", True),
}


def arm(point: str) -> None:
    class_, name, is_after = POINTS[point]
    real = getattr(class_, name)

    async def deadly(self: Any, *arguments: Any, **named: Any) -> Any:
        if is_after:
            await real(self, *arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(class_, name, deadly)


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


if __name__ == "__main__":
    point, _, mutant = sys.argv.pop(1).partition("+")
    if mutant:
        globals()[mutant]()
    if point:
        arm(point)
    run()
