"""A server that dies at one point of an expectation's way: `python … POINT serve …`.

A redemption that left no word is unknown after a second, so that nobody has to wait for it.
"""

import os
import signal
import sys
from typing import Any

from mailonce import mail_wiring
from mailonce.core.expectations import redemption
from mailonce.edge.cli.main import run
from mailonce.edge.http import expectations
from mailonce.inbox.expectations import redeem

# Which name of which module, and whether it dies after it was called, or before.
POINTS: dict[str, tuple[Any, str, bool]] = {
    "open": (expectations, "open_expectation", True),
    "match": (mail_wiring, "match_messages", False),
    "matched": (mail_wiring, "match_messages", True),
    "consume": (expectations, "consume", True),
    "confirm": (expectations, "confirm", True),
    "resend": (expectations, "ask_resend", True),
    "request": (redeem, "_request", False),
    "answer": (redeem, "_request", True),
}


def arm(point: str) -> None:
    module, name, is_after = POINTS[point]
    real = getattr(module, name)

    async def deadly(*arguments: Any, **named: Any) -> Any:
        if is_after:
            await real(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(module, name, deadly)


if __name__ == "__main__":
    redemption.REDEEM_S, redemption.REDEEM_GRACE_MS = 1.0, 0
    point = sys.argv.pop(1)
    if point != "none":
        arm(point)
    run()
