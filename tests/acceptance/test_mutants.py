"""Each line of defence, taken away, is missed: the checks that hold it fail on its broken twin.

Unsorted keys (tests/store/test_lock_order.py) and a recipe that changed without a version have
their twins beside their own tests.
"""

import time
from pathlib import Path

from tests.acceptance import mutants
from tests.acceptance.harness import Server, event, running
from tests.acceptance.load import post_all
from tests.acceptance.test_seed_001 import _let_a_window_pass

LAUNCHER = str(Path(mutants.__file__))


ENVIRONMENT = {"MAILONCE_MASTER_KEY": "shared by all servers"}


def twin(name: str, database_url: str, tmp_path: Path) -> Server:
    return Server(
        tmp_path / "server", database_url, launcher=(LAUNCHER, name), environment=ENVIRONMENT
    )


async def test_an_answer_before_the_commit_is_caught_by_kill_9(
    database_url: str, tmp_path: Path
) -> None:
    with running(twin("answer_before_commit", database_url, tmp_path)) as server:
        answers = await post_all([server.url], [event(n) for n in range(40)], clients=8)
        server.kill()
        server.start()

        stored = {row["raw"]["id"] for row in server.all_events(raw=1)}

        assert not set(answers.acknowledged) <= stored


async def test_arrival_time_in_the_merge_is_caught_by_order(
    database_url: str, tmp_path: Path
) -> None:
    """Unsubscribed then subscribed, told the other way round, must end as it happened."""
    now = int(time.time())
    with running(twin("arrival_time_in_the_merge", database_url, tmp_path)) as server:
        server.post(event(1, "subscribe", recipient="ann@example.net", timestamp=now - 10))
        server.post(event(2, "unsubscribe", recipient="ann@example.net", timestamp=now - 100))

        suppressed = server.get("/v1/suppressions/ann@example.net")["suppressed"]

        assert suppressed is True, "the twin is fooled by the order; ours is not"
    ours = Server(tmp_path / "ours", _other(database_url), environment=ENVIRONMENT)
    with running(ours) as server:
        server.post(event(1, "subscribe", recipient="bob@example.net", timestamp=now - 10))
        server.post(event(2, "unsubscribe", recipient="bob@example.net", timestamp=now - 100))

        assert server.get("/v1/suppressions/bob@example.net")["suppressed"] is False


def test_a_conflict_treated_as_a_duplicate_is_caught(database_url: str, tmp_path: Path) -> None:
    with running(twin("conflict_as_duplicate", database_url, tmp_path)) as server:
        server.post(event(1, "delivery"))

        answer = server.post(event(1, "bounce", bounce_type="hard"))

        assert answer.json()["status"] != "conflict"


def test_a_key_made_of_our_clock_is_caught(database_url: str, tmp_path: Path) -> None:
    with running(twin("key_from_our_clock", database_url, tmp_path)) as server:
        statuses = [server.post(event(1)).json()["status"] for _ in range(2)]

        assert statuses != ["accepted", "duplicate"]


def test_an_older_generation_that_is_not_consulted_is_caught(
    database_url: str, tmp_path: Path
) -> None:
    with running(twin("older_generation_forgotten", database_url, tmp_path)) as server:
        server.post(event(1))

        _let_a_window_pass(server)

        assert server.post(event(1)).json()["status"] != "duplicate"


def _other(database_url: str) -> str:
    """SQLite allows one process at a time, so the second server gets a file of its own."""
    return database_url.replace("data.db", "ours.db")
