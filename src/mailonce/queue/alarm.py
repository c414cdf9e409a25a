"""Raise alarms: as a metric, a log event, and an event that is recorded like any other."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import orjson

from mailonce.clock import Clock
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Identity, KeyScope, Recipe, keys_of
from mailonce.core.health.alarm import BURST_MINUTES, Alarm, AlarmKind, Pulse, Rhythm, alarms_of
from mailonce.core.ids import ArrivalId, EventId
from mailonce.core.ledger.entry import Candidate, Entry
from mailonce.errors import MailonceError
from mailonce.loop import Loop
from mailonce.queue.configuration import ConfigurationCache
from mailonce.store.dialects.contract import Database, Priority, Tx
from mailonce.store.ledger import source_minutes
from mailonce.telemetry import ALARM_CLEARED, ALARM_RAISED, MAINTENANCE_FAILED, Metrics, log

TICK_S = 1.0
JUDGE_EVERY_TICKS = 5
HISTORY_MINUTES = 8 * 24 * 60
LEARN_EVERY_MINUTES = 60
# Sources whose rhythm is learned in one go.
LEARN_MAX = 100
# Alarms are events of a source of their own: what they say comes from us.
SOURCE = "alerts"
PROVIDER, ACCOUNT = "mailonce", "alerts"
RECIPE = Recipe(name="mailonce.alert", version=1, identity=("alert", "source", "onset"))


class _LearnedRhythm(NamedTuple):
    """The rhythm of a source, and in which minute it was learned."""

    rhythm: Rhythm
    minute: int


class Alarms:
    """Counts what each source sends, and judges the counts of all processes together."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        metrics: Metrics,
        configuration: ConfigurationCache,
        record: Callable[[Entry], Awaitable[object]],
    ) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._configuration = configuration
        self._record = record
        self._counts: dict[tuple[str, int], list[int]] = {}
        self._rhythms: dict[str, _LearnedRhythm] = {}
        self._judged_minute = 0
        self._raised: dict[tuple[str, AlarmKind], int] = {}
        self._ticks = 0
        self._loop = Loop("alarms", self._tick, retry_s=TICK_S, failed=MAINTENANCE_FAILED)
        self.start = self._loop.start

    async def stop(self) -> None:
        """Stop, after storing the counts."""
        await self._loop.stop()
        try:
            await self._flush()
        except MailonceError as error:
            log.warning(MAINTENANCE_FAILED, step="pulses", code=error.code)

    def note(self, source: str, now_ms: int, refused: bool) -> None:  # noqa: FBT001 - a callback
        place = (source, now_ms // 60_000)
        counted = self._counts.get(place)
        if counted is None:
            counted = self._counts[place] = [0, 0]
        counted[refused] += 1

    def standing(self) -> list[tuple[str, AlarmKind]]:
        """Give the alarms that are on, by source."""
        return sorted(self._raised)

    async def judge(self, now_ms: int) -> None:
        """Look at every source; raise what is new, clear what is over.

        The latest minutes are read each time, for all sources together. What eight days have
        taught is learned by the database and kept for an hour.
        """
        now_minute = now_ms // 60_000
        sources = list(self._configuration.snapshot.sources.values())
        since = min(now_minute - BURST_MINUTES, self._judged_minute) - 1
        if since < now_minute - LEARN_EVERY_MINUTES:
            # We were away for so long that the rhythms may have missed something.
            self._rhythms.clear()
        recent = await self._read(sources, now_minute, max(since, now_minute - LEARN_EVERY_MINUTES))
        self._judged_minute = now_minute
        for source in sources:
            known = self._rhythms.get(source.id)
            if known is None:
                continue
            if source.off is not None:
                # Nothing can come; that it is off is shown elsewhere.
                self._clear(source, set())
                continue
            pulses = recent.get(source.id, [])
            rhythm = known.rhythm.joined(pulses)
            self._rhythms[source.id] = known._replace(rhythm=rhythm)
            alarms = alarms_of(rhythm, pulses, now_minute=now_minute, silence_s=source.silence_s)
            for alarm in alarms:
                await self._raise(source, alarm)
            self._clear(source, {alarm.kind for alarm in alarms})

    async def _read(
        self, sources: list[Source], now_minute: int, since: int
    ) -> dict[str, list[Pulse]]:
        ids = [source.id for source in sources]
        self._rhythms = {id_: self._rhythms[id_] for id_ in ids if id_ in self._rhythms}
        oldest = _LearnedRhythm(Rhythm(), -LEARN_EVERY_MINUTES)
        due = [
            id_
            for id_ in ids
            if self._rhythms.get(id_, oldest).minute <= now_minute - LEARN_EVERY_MINUTES
        ][:LEARN_MAX]

        def work(tx: Tx) -> tuple[dict[str, Rhythm], dict[str, list[Pulse]]]:
            learned = (
                source_minutes.rhythms(tx, due, minute=now_minute - HISTORY_MINUTES) if due else {}
            )
            return learned, source_minutes.since(tx, ids, minute=since) if ids else {}

        learned, recent = await self._database.read(work)
        for id_, rhythm in learned.items():
            self._rhythms[id_] = _LearnedRhythm(rhythm, now_minute)
        return recent

    async def _raise(self, source: Source, alarm: Alarm) -> None:
        self._metrics.alarms.labels(source.id, alarm.kind.value).set(1)
        if self._raised.get((source.id, alarm.kind)) == alarm.onset:
            return
        # Every process raises it; the ledger lets the first one through.
        await self._record(self._entry(source, alarm))
        self._raised[source.id, alarm.kind] = alarm.onset
        log.error(ALARM_RAISED, source=source.id, name=source.name, kind=alarm.kind.value)

    def _clear(self, source: Source, standing: set[AlarmKind]) -> None:
        for kind in AlarmKind:
            if kind in standing:
                continue
            self._metrics.alarms.labels(source.id, kind.value).set(0)
            if self._raised.pop((source.id, kind), None) is not None:
                log.info(ALARM_CLEARED, source=source.id, name=source.name, kind=kind.value)

    def _entry(self, source: Source, alarm: Alarm) -> Entry:
        fields: dict[str, Any] = {
            "alert": alarm.kind.value,
            "source": source.id,
            "onset": alarm.onset,
        }
        event = Event(
            type=EventType.OTHER,
            identity=Identity(RECIPE, fields),
            occurred_ms=self._clock.now_ms(),
            reason=alarm.reason,
            metadata={"alert": alarm.kind.value, "source": source.id, "name": source.name},
        )
        scope = KeyScope(source.workspace, PROVIDER, ACCOUNT)
        detail = orjson.dumps({"reason": event.reason, "metadata": event.metadata})
        candidate = Candidate(
            EventId(self._clock.new_id()), event, keys_of(scope, event.identity), detail
        )
        return Entry(
            id=ArrivalId(self._clock.new_id()),
            workspace=source.workspace,
            source=SOURCE,
            account=f"{PROVIDER}/{ACCOUNT}",
            arrival_key=f"{alarm.kind.value}:{source.id}:{alarm.onset}",
            body=orjson.dumps(fields),
            headers=b"{}",
            signs_body=True,
            events=(candidate,),
        )

    async def _flush(self) -> None:
        """Store the counts; where the outcome is unknown, again, rather than lose some."""
        counts, self._counts = self._counts, {}
        if not counts:
            return
        rows = [(place[0], Pulse(place[1], *counted)) for place, counted in counts.items()]
        try:
            await self._database.write(
                lambda tx: source_minutes.add_all(tx, rows), priority=Priority.MAINTENANCE
            )
        except BaseException:
            for place, (taken, refused) in self._counts.items():
                counted = counts.setdefault(place, [0, 0])
                counted[0] += taken
                counted[1] += refused
            self._counts = counts
            raise

    async def _tick(self) -> float:
        self._ticks += 1
        await self._flush()
        if self._ticks % JUDGE_EVERY_TICKS == 0:
            await self.judge(self._clock.now_ms())
        return TICK_S
