"""One request in a process of its own, which may die where it is told to.

`python -m tests.gate.child DIALECT URL MODE DEATH`; DEATH is `inside`, `after` or `never`.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import mailonce
from mailonce.gate import Gate, Passage, Request, Response
from mailonce.gate.base import Mode
from tests.gate.gates import store_of
from tests.gate.places import ORDER, Place

ROOT = Path(__file__).parents[2]
REQUEST = Request(headers=(("x-idempotency-key", "k-1"),), body=b'{"id": 1}')


def run_in_a_child(place: Place, *, mode: Mode = "atomic", death: str = "never") -> int:
    """Run the request in a child, and say how that ended: minus nine is `kill -9`."""
    path = os.pathsep.join([str(Path(mailonce.__file__).parents[1]), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", __name__, place.dialect, place.url, mode, death],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        timeout=60,
        check=False,
    )
    return done.returncode


def main(place: Place, mode: Mode, death: str) -> None:
    def work(passage: Passage[Any]) -> Response:
        if mode == "atomic":
            passage.tx.execute(ORDER)
        if death == "inside":
            os.kill(os.getpid(), signal.SIGKILL)
        return Response.json(201, {"order": 1})

    answer = Gate(store_of(place), mode=mode).run(REQUEST, work)
    assert answer.response.status == 201
    if death == "after":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Place(sys.argv[1], sys.argv[2]), cast("Mode", sys.argv[3]), sys.argv[4])
