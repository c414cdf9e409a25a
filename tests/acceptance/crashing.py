"""A server that dies at one point of a delivery's way: `python crashing.py POINT serve …`."""

import os
import signal
import sys
from typing import Any

from mailonce.edge.cli.main import run
from mailonce.store.dialects.postgres.database import PostgresDatabase
from mailonce.store.dialects.postgres.fenced_leases import PostgresLeases
from mailonce.store.dialects.sqlite.fenced_leases import SqliteLeases


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    if point == "after_early_lease":
        PostgresDatabase.record = _deadly_record(PostgresDatabase.record)  # type: ignore[method-assign]
        return
    when, _, name = point.partition("_")
    for leases in (PostgresLeases, SqliteLeases):
        setattr(leases, name, _deadly(getattr(leases, name), when))


def _deadly(real: Any, when: str) -> Any:
    async def deadly(self: Any, *arguments: Any, **named: Any) -> Any:
        if when == "before":
            die()
        done = await real(self, *arguments, **named)
        # A lease that found nothing is no point of a delivery's way.
        if done:
            die()
        return done

    return deadly


def _deadly_record(real: Any) -> Any:
    async def deadly(self: Any, batch: Any, **named: Any) -> Any:
        answers = await real(self, batch, **named)
        # It stands, and neither the sender nor the endpoint has heard of it.
        if batch.leased:
            die()
        return answers

    return deadly


if __name__ == "__main__":
    arm(sys.argv.pop(1))
    run()
