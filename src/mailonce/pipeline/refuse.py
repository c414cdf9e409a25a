"""Refuse: count refused arrivals, with a bounded sample, and store the counts at intervals."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import orjson

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from mailonce.core.bounds import NAME_CHARS_MAX, NAME_PATTERN
from mailonce.core.moment import DAY_MS
from mailonce.core.signatures.refusal import NO_SOURCE, NO_SOURCE_PATH, PATH, UNKNOWN
from mailonce.store.configuration.workspaces import DEFAULT as DEFAULT_WORKSPACE
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.ledger import refusals
from mailonce.store.ledger.refusals import RefusalCount
from mailonce.telemetry import UNKNOWN_SOURCE, log

SAMPLE_BYTES_MAX = 4096
KINDS_MAX = 1000
# Anybody can make up names of sources.
UNKNOWN_NAMES_A_DAY_MAX = 20
MINUTE_MS = 60_000
# How many minutes of them have one count.
UNKNOWN_MINUTES = 10
PATH_CHARS_MAX = 200
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
# What tells which provider posts to a wrong URL.
_TELLING_HEADERS = ("user-agent", "content-type")
_NAME = re.compile(NAME_PATTERN)
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
        # The names that no source has, of one day.
        self._unknown_day = 0
        # Each with the minute that its count begins with.
        self._unknown_minutes: dict[str, int] = {}

    def add(self, source: Source, arrival: Arrival, reason: str) -> bool:
        """Count a refusal; keep a sample of the first of its kind, and say whether it was that."""
        place = (source.workspace, source.id, reason, arrival.now_ms // MINUTE_MS)
        if not self._count(place):
            return False
        first = list(arrival.headers.items())[:40]
        headers = {name: value for name, value in first if name not in _SECRET_HEADERS}
        self._keep(place, arrival, headers, arrival.body[:SAMPLE_BYTES_MAX])
        return True

    def add_unknown(self, name: str, arrival: Arrival, *, path: str | None = None) -> None:
        """Count an arrival for a source that does not exist, and log a name that is new today.

        `path`: it was posted to a path of no source, though one may have this name.

        Of names that nobody could have configured, and of all beyond the first few of a day, only
        the sum is kept. Counts are those of ten minutes from the first on, without a body: a
        scanner makes few rows, and the first is found in the log of a proxy.
        """
        day = arrival.now_ms // DAY_MS
        if day != self._unknown_day:
            self._unknown_day, self._unknown_minutes = day, {}
        source = f"{UNKNOWN} {name}"
        is_name = len(name) <= NAME_CHARS_MAX and _NAME.fullmatch(name) is not None
        is_many = len(self._unknown_minutes) >= UNKNOWN_NAMES_A_DAY_MAX
        if not is_name or (is_many and source not in self._unknown_minutes):
            source = UNKNOWN
        if source not in self._unknown_minutes:
            log.warning(UNKNOWN_SOURCE, name=source)
        minute = arrival.now_ms // MINUTE_MS
        first = self._unknown_minutes.setdefault(source, minute)
        # A slow request may come behind a later one; it begins no count of its own.
        if abs(minute - first) >= UNKNOWN_MINUTES:
            first = self._unknown_minutes[source] = minute
        reason = NO_SOURCE if path is None else NO_SOURCE_PATH
        place = (DEFAULT_WORKSPACE, source, reason, first)
        if self._count(place):
            whole = f"/in/{name}" if path is None else path
            telling = {PATH: whole.encode("ascii", "backslashreplace").decode()[:PATH_CHARS_MAX]}
            telling |= {one: arrival.headers.get(one, "") for one in _TELLING_HEADERS}
            self._keep(place, arrival, telling, b"")

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

    def _count(self, place: _Place) -> bool:
        """Count one, unless there are too many kinds; say whether it is the first of its kind."""
        is_first = place not in self._counts
        if is_first and len(self._counts) >= KINDS_MAX:
            return False
        self._counts[place] += 1
        return is_first

    def _keep(
        self, place: _Place, arrival: Arrival, headers: Mapping[str, str], sample: bytes
    ) -> None:
        workspace, source, reason, minute = place
        self._samples[place] = RefusalCount(
            workspace=workspace,
            source=source,
            reason=reason,
            minute=minute,
            process=self._process,
            count=0,
            body_bytes=len(arrival.body),
            headers=orjson.dumps({name: value[:200] for name, value in headers.items()}),
            sample=sample,
            peer=arrival.peer,
        )
