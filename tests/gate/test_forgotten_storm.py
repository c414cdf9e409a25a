"""Forgotten threads and tasks by the hundred: none writes into another request's transaction.

Each row says which request wrote it, and in which transaction of PostgreSQL. A row of a forgotten
one may stand only beside the row of its own request, in the same transaction.
"""

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

from mailonce.gate import AsyncPassage, Passage, Response
from tests.gate.gates import ask
from tests.gate.places import Place
from tests.gate.test_misuse_awaited import async_psycopg_gate, async_session_gate, asyncpg_gate
from tests.gate.test_running_tasks import (
    connection_gate,
    connection_on_asyncpg_gate,
    connection_on_psycopg_gate,
    psycopg_gate,
    session_gate,
    session_on_psycopg_gate,
    worded,
)

pytestmark = pytest.mark.long

STORM_S = 8.0
OPEN = """
    SELECT query FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%'
"""


@pytest.fixture
def place(postgres_place: Place) -> Iterator[Place]:
    postgres_place.empty()
    before = sys.getswitchinterval()
    # Threads change at almost every step.
    sys.setswitchinterval(1e-5)
    yield postgres_place
    sys.setswitchinterval(before)


def row(tx: Any, key: str, who: str) -> Any:
    return worded(tx, f"INSERT INTO orders VALUES ('{key} {who} ' || pg_current_xact_id())")


def judge(place: Place, statuses: dict[str, int | None]) -> None:
    """Compare what stands with what was answered; None: nobody knows the answer."""
    rows = [note.split() for (note,) in place.query("SELECT note FROM orders")]
    own = {(key, transaction) for key, who, transaction in rows if who == "handler"}
    strays = [(key, at) for key, who, at in rows if who == "forgotten" and (key, at) not in own]
    written = [key for key, _ in own]
    answered = {key for key, status in statuses.items() if status == 201}
    undone = {key for key, status in statuses.items() if status not in (201, None)}

    assert strays == []
    assert len(written) == len(set(written)), "a request was done twice"
    assert answered <= set(written), "a request was answered and is not there"
    assert not undone & set(written), "a request was refused and is there"
    assert place.query(OPEN) == []
    assert len(answered) > 50


@pytest.mark.parametrize("open_gate", [psycopg_gate, session_gate, connection_gate])
def test_forgotten_threads_write_in_their_own_transaction_or_not_at_all(
    place: Place, open_gate: Any
) -> None:
    gate, close = open_gate(place)
    statuses: dict[str, int | None] = {}
    threads: list[Thread] = []
    ends_s = time.monotonic() + STORM_S

    def forget(tx: Any, key: str) -> None:
        with suppress(Exception):
            for _ in range(random.randint(1, 6)):
                time.sleep(random.choice((0, 0.01)) * random.random())
                tx.execute(row(tx, key, "forgotten"))

    def send(client: int) -> None:
        number = 0
        while time.monotonic() < ends_s:
            number += 1
            key = f"k{client}-{number}"

            def work(passage: Passage[Any], key: str = key) -> Response:
                if random.random() < 0.6:
                    threads.append(Thread(target=forget, args=(passage.tx, key)))
                    threads[-1].start()
                time.sleep(random.choice((0, 0.005)) * random.random())
                passage.tx.execute(row(passage.tx, key, "handler"))
                if random.random() < 0.1:
                    raise ValueError
                return Response(201)

            statuses[key] = 500
            with suppress(Exception):
                statuses[key] = gate.run(ask(key), work).response.status

    clients = [Thread(target=send, args=(client,)) for client in range(2)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    for thread in threads:
        thread.join()
    judge(place, statuses)
    close()


@pytest.mark.parametrize(
    "open_gate",
    [
        asyncpg_gate,
        async_psycopg_gate,
        async_session_gate,
        session_on_psycopg_gate,
        connection_on_asyncpg_gate,
        connection_on_psycopg_gate,
    ],
)
async def test_forgotten_tasks_write_in_their_own_transaction_or_not_at_all(
    place: Place, open_gate: Any
) -> None:
    """A tenth of the requests is cancelled as well, as if their clients had gone."""
    gate, close = await open_gate(place)
    statuses: dict[str, int | None] = {}
    tasks: list[asyncio.Task[None]] = []
    ends_s = time.monotonic() + STORM_S

    async def forget(tx: Any, key: str) -> None:
        with suppress(Exception):
            for _ in range(random.randint(1, 6)):
                await asyncio.sleep(random.choice((0, 0.01)) * random.random())
                await tx.execute(row(tx, key, "forgotten"))

    async def send(client: int) -> None:
        number = 0
        while time.monotonic() < ends_s:
            number += 1
            key = f"k{client}-{number}"

            async def work(passage: AsyncPassage[Any], key: str = key) -> Response:
                if random.random() < 0.6:
                    tasks.append(asyncio.create_task(forget(passage.tx, key)))
                await asyncio.sleep(random.choice((0, 0.005)) * random.random())
                await passage.tx.execute(row(passage.tx, key, "handler"))
                if random.random() < 0.1:
                    raise ValueError
                return Response(201)

            patience_s = random.random() * 0.02 if random.random() < 0.1 else 60
            statuses[key] = None
            try:
                answer = await asyncio.wait_for(gate.run(ask(key), work), patience_s)
            except TimeoutError:
                continue
            except Exception:
                statuses[key] = 500
            else:
                statuses[key] = answer.response.status

    await asyncio.gather(*(send(client) for client in range(2)))
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    judge(place, statuses)
    await asyncio.wait_for(close(), 60)
