"""Kill -9 at random instants, again and again: each message takes effect once.

The bounded form runs with every other test; `make soak` runs a thousand kills of each.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.gate_apps import App, running
from tests.acceptance.soak import Senders, soak
from tests.acceptance.test_gate_examples import fresh_database
from tests.acceptance.test_gate_worker import Outside, outside
from tests.servers import PostgresServer

__all__ = ["outside"]

KINDS = (
    "gate_fastapi-postgresql",
    "gate_flask-sqlite",
    "gate_django-postgresql",
    "gate_worker-postgresql",
)
KILLS = 15
KILLS_IN_FULL = 1000


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, tmp_path: Path, outside: Outside) -> Iterator[App]:
    name, kind = request.param.split("-")
    database = f"sqlite:///{tmp_path / 'tickets.db'}"
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = fresh_database(server)
    app = App(name, database, tmp_path, {"NOTIFY_URL": outside.url})
    with running(app):
        # Makes the tables; the lives that follow are forks.
        app.kill()
        yield app


def test_each_message_takes_effect_once_however_often_the_app_is_killed(
    app: App, outside: Outside
) -> None:
    check(app, outside, kills=KILLS)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_message_takes_effect_once_in_a_thousand_kills(app: App, outside: Outside) -> None:
    check(app, outside, kills=KILLS_IN_FULL)


def check(app: App, outside: Outside, *, kills: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"{app.name}: seed {seed}")
    outside.keys.clear()

    senders = soak(app, kills=kills, chance=random.Random(seed))

    print(
        f"{kills} kills cut off {senders.cut_off} requests; {len(senders.answers)} messages "
        f"answered after {senders.attempts} attempts"
    )
    # A run in which nothing ended, or nothing was met by a kill, would show nothing. The worker
    # ends a message in two steps and so gets the fewest done between two kills.
    assert len(senders.answers) > kills / 10
    assert senders.cut_off > kills / 4
    for answers in senders.answers.values():
        assert [answer.status_code for answer in answers] == [201, 201], answers[0].text
        assert answers[0].content == answers[1].content
    assert effects(app) == Counter(dict.fromkeys(senders.answers, 1))
    if app.name == "gate_worker":
        check_outside(senders, outside)


def check_outside(senders: Senders, outside: Outside) -> None:
    """Each message was told outside under one key, however often the call was repeated."""
    assert set(senders.answers) <= set(outside.keys)
    assert {message: len(keys) for message, keys in outside.keys.items() if len(keys) != 1} == {}


def effects(app: App) -> Counter[str]:
    return Counter(app.column("SELECT message FROM tickets"))
