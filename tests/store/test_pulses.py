"""Pulses: what the database learns of a rhythm, and what it is asked to read."""

from random import Random

from sqlalchemy import delete, text

from mailonce.clock import Clock
from mailonce.core.health.alarm import Pulse
from mailonce.queue.alarm import Alarms
from mailonce.queue.configuration import Configuration, ConfigurationCache
from mailonce.store.dialects.contract import Database
from mailonce.store.ledger import source_minutes
from mailonce.store.schema.tables import PULSES
from mailonce.telemetry import Metrics
from tests.core.test_alarm import NOW, rhythm_of
from tests.factories import SEALER, make_source

DAY = 24 * 60


async def test_a_rhythm_is_learned_as_it_is_in_plain_words(database: Database) -> None:
    chance = Random(7)
    histories = {
        f"src_{number}": [
            Pulse(minute, chance.choice([0, 0, 3]), chance.choice([0, 1]))
            for minute in sorted(chance.sample(range(NOW - 8 * DAY, NOW), 40 * number))
        ]
        for number in range(4)
    }
    rows = [(source, pulse) for source, history in histories.items() for pulse in history]
    await database.write(lambda tx: source_minutes.add_all(tx, rows))

    since = NOW - 4 * DAY
    learned = await database.read(
        lambda tx: source_minutes.rhythms(tx, list(histories), minute=since)
    )
    read = await database.read(lambda tx: source_minutes.since(tx, list(histories), minute=since))

    late = {
        source: [pulse for pulse in history if pulse.minute >= since]
        for source, history in histories.items()
    }
    assert learned == {source: rhythm_of(history) for source, history in late.items()}
    assert read == {source: history for source, history in late.items() if history}


async def test_alarms_come_and_go_without_reading_the_history_again(database: Database) -> None:
    recorded: list[object] = []

    async def record(entry: object) -> None:
        recorded.append(entry)

    configuration = ConfigurationCache(database, Clock(), SEALER, Metrics())
    source = make_source()
    configuration.snapshot = Configuration(sources={source.id: source})
    metrics = Metrics()
    alarms = Alarms(database, Clock(), metrics, configuration, record)
    steady = [(source.id, Pulse(minute, 1, 0)) for minute in range(NOW - 3 * DAY, NOW, 10)]
    await database.write(lambda tx: source_minutes.add_all(tx, steady))

    async def judged(minute: int) -> list[float]:
        await alarms.judge(minute * 60_000)
        rows = (
            metrics.registry.get_sample_value("mailonce_alarm", {"source": source.id, "kind": kind})
            for kind in ("silent", "refusing")
        )
        return [value or 0.0 for value in rows]

    assert await judged(NOW) == [0, 0]
    assert await judged(NOW + 31) == [1, 0]
    assert len(recorded) == 1
    # It comes back while nobody looks, and is known to be busy at the next look.
    back = [(source.id, Pulse(NOW + 33, 1, 0)), (source.id, Pulse(NOW + 34, 0, 11))]
    await database.write(lambda tx: source_minutes.add_all(tx, back))
    assert await judged(NOW + 35) == [0, 1]
    assert await judged(NOW + 60) == [0, 0]
    # Hours later, as after a stop of the process: what was missed is learned anew.
    assert await judged(NOW + 400) == [1, 0]


async def test_what_was_learned_is_not_read_again_at_each_look(database: Database) -> None:
    async def record(entry: object) -> None:
        """Nobody asks for it here."""

    source = make_source()
    metrics = Metrics()
    configuration = ConfigurationCache(database, Clock(), SEALER, metrics)
    configuration.snapshot = Configuration(sources={source.id: source})
    alarms = Alarms(database, Clock(), metrics, configuration, record)
    steady = [(source.id, Pulse(minute, 1, 0)) for minute in range(NOW - 3 * DAY, NOW, 10)]
    await database.write(lambda tx: source_minutes.add_all(tx, steady))
    await alarms.judge(NOW * 60_000)

    # Whoever read the history again would find none.
    await database.write(lambda tx: tx.execute(delete(PULSES)) and None)
    await alarms.judge((NOW + 31) * 60_000)

    labels = {"source": source.id, "kind": "silent"}
    assert metrics.registry.get_sample_value("mailonce_alarm", labels) == 1


async def test_what_could_not_be_written_is_counted_by_the_next_write(database: Database) -> None:
    async def record(entry: object) -> None:
        """Nobody asks for it here."""

    metrics = Metrics()
    configuration = ConfigurationCache(database, Clock(), SEALER, metrics)
    alarms = Alarms(database, Clock(), metrics, configuration, record)
    alarms.start()
    alarms.note("src_1", NOW * 60_000, False)
    away = text("ALTER TABLE pulses RENAME TO pulses_away")
    await database.write(lambda tx: tx.execute(away) and None)

    alarms.note("src_1", NOW * 60_000, False)
    await alarms.stop()
    back = text("ALTER TABLE pulses_away RENAME TO pulses")
    await database.write(lambda tx: tx.execute(back) and None)
    alarms.note("src_1", NOW * 60_000, True)
    await alarms.stop()

    read = await database.read(lambda tx: source_minutes.since(tx, ["src_1"], minute=NOW))
    assert read == {"src_1": [Pulse(NOW, 2, 1)]}
