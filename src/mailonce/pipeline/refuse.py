"""Refuse: count refused arrivals, with a bounded sample, and store the counts at intervals."""

from dataclasses import dataclass

import orjson

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.ledger import refusals

SAMPLE_BYTES_MAX = 4096
KINDS_MAX = 1000
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(slots=True)
class _Tally:
    count: int
    body_bytes: int
    headers: bytes
    sample: bytes


class Refusals:
    """Counts in memory: a flood of forgeries costs no writes, one row per reason and minute."""

    def __init__(self, database: Database, process: bytes) -> None:
        self._database = database
        self._process = process
        self._tallies: dict[tuple[str, str, str, int], _Tally] = {}

    def add(self, source: Source, arrival: Arrival, reason: str) -> bool:
        """Count a refusal; keep a sample of the first of its kind, and say whether it was that."""
        place = (source.workspace, source.id, reason, arrival.now_ms // 60_000)
        tally = self._tallies.get(place)
        if tally is not None:
            tally.count += 1
            return False
        if len(self._tallies) < KINDS_MAX:
            headers = {
                name: value[:200]
                for name, value in list(arrival.headers.items())[:40]
                if name not in _SECRET_HEADERS
            }
            self._tallies[place] = _Tally(
                1, len(arrival.body), orjson.dumps(headers), arrival.body[:SAMPLE_BYTES_MAX]
            )
            return True
        return False

    async def flush(self) -> None:
        """Store what was counted since the last time; on failure keep it for the next."""
        tallies, self._tallies = self._tallies, {}
        if not tallies:
            return
        rows = [
            refusals.RefusalCount(
                workspace=place[0],
                source=place[1],
                reason=place[2],
                minute=place[3],
                process=self._process,
                count=tally.count,
                body_bytes=tally.body_bytes,
                headers=tally.headers,
                sample=tally.sample,
            )
            for place, tally in sorted(tallies.items())
        ]
        try:
            await self._database.write(
                lambda tx: refusals.add_all(tx, rows), priority=Priority.MAINTENANCE
            )
        except BaseException:
            for place, tally in tallies.items():
                known = self._tallies.setdefault(place, tally)
                if known is not tally:
                    known.count += tally.count
            raise
