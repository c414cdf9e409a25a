"""Refuse: count refused arrivals, with a bounded sample, and store the counts at intervals."""

from collections import Counter
from dataclasses import replace

import orjson

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.ledger import refusals
from mailonce.store.ledger.refusals import RefusalCount

SAMPLE_BYTES_MAX = 4096
KINDS_MAX = 1000
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
# A workspace, a source, a reason and a minute.
_Place = tuple[str, str, str, int]


class Refusals:
    """Counts in memory: a flood of forgeries costs no writes, one row per reason and minute."""

    def __init__(self, database: Database, process: bytes) -> None:
        self._database = database
        self._process = process
        self._counts: Counter[_Place] = Counter()
        # The first of each kind.
        self._samples: dict[_Place, RefusalCount] = {}

    def add(self, source: Source, arrival: Arrival, reason: str) -> bool:
        """Count a refusal; keep a sample of the first of its kind, and say whether it was that."""
        place = (source.workspace, source.id, reason, arrival.now_ms // 60_000)
        is_known = place in self._counts
        if not is_known and len(self._counts) >= KINDS_MAX:
            return False
        self._counts[place] += 1
        if not is_known:
            self._samples[place] = self._sample(place, arrival)
        return not is_known

    async def flush(self) -> None:
        """Store what was counted since the last time; on failure keep it for the next."""
        counts, samples = self._counts, self._samples
        if not counts:
            return
        self._counts, self._samples = Counter(), {}
        rows = [replace(samples[place], count=count) for place, count in sorted(counts.items())]
        try:
            await self._database.write(
                lambda tx: refusals.add_all(tx, rows), priority=Priority.MAINTENANCE
            )
        except BaseException:
            self._counts.update(counts)
            self._samples = samples | self._samples
            raise

    def _sample(self, place: _Place, arrival: Arrival) -> RefusalCount:
        first = list(arrival.headers.items())[:40]
        headers = {name: value[:200] for name, value in first if name not in _SECRET_HEADERS}
        workspace, source, reason, minute = place
        return RefusalCount(
            workspace=workspace,
            source=source,
            reason=reason,
            minute=minute,
            process=self._process,
            count=0,
            body_bytes=len(arrival.body),
            headers=orjson.dumps(headers),
            sample=arrival.body[:SAMPLE_BYTES_MAX],
            peer=arrival.peer,
        )
