"""A crash at any instant: in atomic mode nothing stays, and nothing is parked."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from mailonce.gate import Gate, Outcome, Passage, Policy, Response, is_final
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore
from tests.gate.gates import DONE, ask, store_of
from tests.gate.places import ORDER, Place

CHILD = """
import sys, time
from tests.gate.gates import ask, store_of
from tests.gate.places import ORDER, Place
from mailonce.gate import Gate

passage = Gate(store_of(Place(*sys.argv[1:3])), mode=sys.argv[3]).enter(ask())
if sys.argv[3] == "atomic":
    passage.tx.execute(ORDER)
print("inside", flush=True)
time.sleep(60)
"""


def order(passage: Passage[Any]) -> Response:
    passage.tx.execute(ORDER)
    return DONE


def test_nobody_sees_a_claim_before_its_work(place: Place) -> None:
    passage = Gate(store_of(place)).enter(ask())
    assert isinstance(passage, Passage)
    passage.tx.execute(ORDER)

    before = (place.records(), place.orders())
    passage.finish(DONE)

    assert before == (0, 0)
    assert (place.records(), place.orders()) == (1, 1)


@pytest.mark.parametrize("mode", ["atomic", "lease"])
def test_after_kill_9_the_next_copy_goes_through(place: Place, mode: str) -> None:
    command = [sys.executable, "-c", CHILD, place.dialect, place.url, mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"inside\n"
        child.kill()
    left = (place.records(), place.orders())
    gate = Gate(store_of(place), mode=mode)  # type: ignore[arg-type]

    if mode == "lease":
        assert gate.run(ask(), lambda _: DONE).outcome is Outcome.RUNNING
        place.let_leases_end()
    answers = [gate.run(ask(), order if mode == "atomic" else lambda _: DONE) for _ in range(2)]

    assert left == ((0, 0) if mode == "atomic" else (1, 0))
    assert [answer.outcome for answer in answers] == [Outcome.FIRST, Outcome.REPLAYED]


def test_a_connection_that_breaks_before_the_commit_is_503_and_leaves_nothing(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    gate = Gate(store_of(postgres_place))

    def cut(passage: Passage[psycopg.Connection[Any]]) -> Response:
        passage.tx.execute(ORDER)
        pid = passage.tx.info.backend_pid
        postgres_place.query(f"SELECT pg_terminate_backend({pid}, 5000)")
        return DONE

    broken = gate.run(ask(), cut)

    assert (broken.outcome, broken.response.status) == (Outcome.UNAVAILABLE, 503)
    assert (postgres_place.records(), postgres_place.orders()) == (0, 0)
    assert gate.run(ask(), order).outcome is Outcome.FIRST


def test_an_app_whose_own_statement_failed_is_not_recorded_as_done(postgres_place: Place) -> None:
    """It swallowed a fault of PostgreSQL, which will commit nothing of that transaction."""
    postgres_place.empty()
    gate = Gate(store_of(postgres_place))

    def swallow(passage: Passage[psycopg.Connection[Any]]) -> Response:
        with pytest.raises(psycopg.Error):
            passage.tx.execute("SELECT 1 / 0")
        return DONE

    assert gate.run(ask(), swallow).outcome is Outcome.UNAVAILABLE
    assert postgres_place.records() == 0


def test_a_refusal_after_the_apps_own_fault_is_recorded(postgres_place: Place) -> None:
    postgres_place.empty()
    gate = Gate(store_of(postgres_place), Policy(terminal=is_final))

    def refuse(passage: Passage[psycopg.Connection[Any]]) -> Response:
        with pytest.raises(psycopg.Error):
            passage.tx.execute("SELECT 1 / 0")
        return Response(422)

    answers = [gate.run(ask(), refuse) for _ in range(2)]

    assert [answer.outcome for answer in answers] == [Outcome.FIRST, Outcome.REPLAYED]


def test_a_late_holder_cannot_finish_what_another_works_on(place: Place) -> None:
    gate = Gate(store_of(place), mode="lease")
    late = gate.enter(ask())
    place.let_leases_end()
    holder = gate.enter(ask())
    assert isinstance(late, Passage)
    assert isinstance(holder, Passage)

    answer = late.finish(Response(200, b"late"))
    kept = holder.finish(Response(200, b"holder"))

    assert answer.outcome is Outcome.RUNNING
    assert kept.outcome is Outcome.FIRST
    assert gate.run(ask(), lambda _: DONE).response.body == b"holder"


def test_a_late_holder_cannot_let_go_of_anothers_lease(place: Place) -> None:
    gate = Gate(store_of(place), mode="lease")
    late = gate.enter(ask())
    place.let_leases_end()
    holder = gate.enter(ask())
    assert isinstance(late, Passage)
    assert isinstance(holder, Passage)

    late.abandon()

    assert gate.run(ask(), lambda _: DONE).outcome is Outcome.RUNNING


def test_a_record_that_another_program_parked_is_taken_up(place: Place) -> None:
    """A hand-written receiver may have committed its claim before its work, and died."""
    gate = Gate(store_of(place))
    gate.run(ask(), lambda _: DONE)
    place.query(
        "UPDATE webhook_idempotency SET status = 'processing', response_status = NULL, "
        "response_headers = NULL, response_body = NULL, completed_at = NULL"
    )

    assert gate.run(ask(), order).outcome is Outcome.FIRST
    assert place.orders() == 1


def test_on_postgresql_repeats_do_not_wait_for_each_other_nor_for_other_keys(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    gate = Gate(store_of(postgres_place), Policy(lease_s=5))
    gate.run(ask("done"), order)
    inside, go = threading.Event(), threading.Event()

    def slow(passage: Passage[Any]) -> Response:
        inside.set()
        assert go.wait(60)
        return order(passage)

    thread = threading.Thread(target=gate.run, args=(ask("slow"), slow))
    thread.start()
    assert inside.wait(60)
    holding = gate.enter(ask("done"))
    others = [gate.run(ask(key), order).outcome for key in ("done", "new", "slow")]
    go.set()
    thread.join()

    assert not isinstance(holding, Passage)
    assert others == [Outcome.REPLAYED, Outcome.FIRST, Outcome.RUNNING]


def test_an_app_that_isolates_strictly_still_takes_effect_once(postgres_place: Place) -> None:
    """PostgreSQL then refuses some copies with 40001; they hear 503 and come again."""
    postgres_place.empty()
    url = postgres_place.url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, isolation_level="SERIALIZABLE", pool_size=10)
    gate: Gate[Any] = Gate(SqlalchemyStore(engine))

    def work(passage: Passage[Any]) -> Response:
        passage.tx.exec_driver_sql(ORDER)
        return DONE

    with ThreadPoolExecutor(10) as threads:
        outcomes = list(threads.map(lambda _: gate.run(ask(), work).outcome, range(30)))
    engine.dispose()

    assert outcomes.count(Outcome.FIRST) == 1
    later = {Outcome.REPLAYED, Outcome.RUNNING, Outcome.UNAVAILABLE}
    assert set(outcomes) <= {Outcome.FIRST, *later}
    assert postgres_place.orders() == 1


def test_the_key_of_a_passage_is_the_senders(place: Place) -> None:
    keys = []

    def work(passage: Passage[Any]) -> Response:
        keys.append(passage.key)
        return DONE

    for number in (1, 2):
        Gate(store_of(place), Policy(other_content="revision")).run(ask("k-1", number), work)

    assert keys == ["k-1", "k-1"]
