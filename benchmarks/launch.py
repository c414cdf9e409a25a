"""Run `mailonce serve` with a change that the benchmark asks for; `src` knows nothing of it.

`--off`: the recorder answers at once and stores nothing, which shows what storage costs.
`--profile FILE`: write the profile of the serving thread when the server stops.
"""

import asyncio
import cProfile
import sys

from mailonce.__main__ import main
from mailonce.core.ledger.claim import FirstClaim
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, Status
from mailonce.pipeline.record import Recorder
from mailonce.pipeline.waiting import Tell


def answer_at_once(self: Recorder, entry: Entry, tell: Tell) -> None:
    del self
    new = len(entry.events)
    verdicts = tuple(FirstClaim() for _ in entry.items)
    outcome = ArrivalOutcome(Status.ACCEPTED, events=new, new=new, verdicts=verdicts)
    # As the recorder does: never before `submit` has returned.
    asyncio.get_running_loop().call_soon(tell, outcome)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[0] == "--off":
        arguments.pop(0)
        Recorder.submit = answer_at_once  # type: ignore[method-assign]
    profile = cProfile.Profile()
    file = None
    if arguments[0] == "--profile":
        _, file, *arguments = arguments
        profile.enable()
    sys.argv = ["mailonce", *arguments]
    try:
        main()
    finally:
        if file is not None:
            profile.disable()
            profile.dump_stats(file)
