"""A process dies inside a handler, at each point: its row and "done" stand together, or neither."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import insert, select, text, update

from mailonce.core.work.states import AttemptKind, State
from mailonce.handlers import handler_id
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Tx
from mailonce.store.schema.tables import DELIVERIES, LANES
from tests.forking import PYTHONPATH
from tests.pipeline.crash_once import live

ROUTE = handler_id("default", "notes")
# Where it dies, and whether its row and "done" are then there.
POINTS = {"exit-entry": False, "kill-inside": False, "exit-commit": False, "exit-after": True}


def owe(tx: Tx, message: str) -> None:
    tx.execute(text("CREATE TABLE notes (message text, who text)"))
    lane = {"route": ROUTE, "owner": b"", "until_ms": 0, "seq": 0, "acknowledged": 0}
    tx.execute(insert(LANES), lane)
    row: dict[str, Any] = {
        "key": bytes(32), "workspace": "default", "route": ROUTE, "event": bytes(16), "day": 0,
        "body": orjson.dumps({"message_id": message}), "state": State.DUE,
        "lane": AttemptKind.FIRST, "due_ms": 0, "deadline_ms": 1 << 50, "made_ms": 0, "attempts": 0,
        "round_began": 0, "redeliveries": 0, "again": False, "token": 0,
    }  # fmt: skip
    tx.execute(insert(DELIVERIES), row)


def found(tx: Tx) -> tuple[int, State]:
    notes = tx.execute(text("SELECT count(*) FROM notes")).scalar_one()
    return notes, State(tx.execute(select(DELIVERIES.c.state)).scalar_one())


def lapse(tx: Tx) -> None:
    """Let the lease and the lane of the dead one run out."""
    leased = DELIVERIES.c.state == State.LEASED
    tx.execute(update(DELIVERIES).where(leased).values(state=State.DUE, lease_ms=None))
    tx.execute(update(LANES).values(until_ms=0))


def live_and_die(url: str, folder: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.crash_once", url],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "HANDLING_FOLDER": str(folder)},
        timeout=60,
        check=False,
    )
    return done.returncode


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_keeps_both_or_neither_and_the_next_worker_makes_it_one(
    database_url: str, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDLING_FOLDER", str(tmp_path))
    database = await open_database(database_url)
    await database.write(lambda tx: owe(tx, f"{point}-1"))
    await database.close()

    died = live_and_die(database_url, tmp_path)

    database = await open_database(database_url)
    after_crash = await database.read(found)
    await database.write(lapse)
    await database.close()
    assert died in {9, -9}
    assert after_crash == ((1, State.DONE) if POINTS[point] else (0, State.LEASED))

    if not POINTS[point]:
        await live(database_url)
    database = await open_database(database_url)
    at_last = await database.read(found)
    await database.close()
    assert at_last == (1, State.DONE)
