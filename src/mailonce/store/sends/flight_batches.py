"""The steps of many sends at a time: each by one statement, where the database gains by that."""

from collections.abc import Sequence
from functools import partial

from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.sends import flight_statements, flights
from mailonce.store.sends.flights import FlightMark, SendEnd, SendJob, SendStep


class FlightBatches:
    """Reads sends, marks them as in flight, and writes what their steps change.

    Each call may raise UnavailableError; then it is unknown whether anything was written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, keys: Sequence[bytes]) -> dict[bytes, SendJob]:
        """Read sends by their keys, with what they send."""
        run = self._database.run_statement
        if run is not None:
            return await flight_statements.read_jobs(run, keys)
        return await self._database.read(partial(flights.read_jobs, keys=keys))

    async def begin(
        self, marks: Sequence[FlightMark], *, now_ms: int
    ) -> tuple[set[bytes], dict[bytes, str]]:
        """Mark sends as in flight; give the keys of those, and the causes of those suppressed.

        A send in neither has lost its lease, or was cancelled or settled meanwhile: nothing of it
        may leave.
        """
        flying: set[bytes] = set()
        run = self._database.run_statement
        if run is not None:
            flying = await flight_statements.begin(run, marks, now_ms=now_ms)
        others = [mark for mark in marks if mark.key not in flying]
        if not others:
            return flying, {}
        more, causes = await self._database.write(
            partial(flights.begin, marks=others, now_ms=now_ms), priority=Priority.WORKER
        )
        return flying | more, causes

    async def end(
        self, ends: Sequence[SendEnd], steps: Sequence[SendStep], *, now_ms: int
    ) -> set[bytes]:
        """Write what steps change, and note them; give the keys of those that stood as read.

        The others were changed by somebody else: read them again, and decide again. No send has
        two of either.
        """
        run = self._database.run_statement
        if run is not None:
            return await flight_statements.end(run, ends, steps, now_ms=now_ms)
        return await self._database.write(
            partial(flights.end, ends=ends, steps=steps, now_ms=now_ms), priority=Priority.WORKER
        )
