"""What other packages and receivers get wrong, each as a test that ours does it right.

The names say the fault. Where each was seen stands above its group.
"""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mailonce.gate import Answer, Gate, Passage, Policy, Request, Response
from mailonce.gate.base import Mode
from tests.gate.child import REQUEST, run_in_a_child
from tests.gate.gates import store_of
from tests.gate.places import ORDER, Place

Work = Callable[[Passage[Any]], Response]
MADE = Response.json(201, {"order": 1})
KILLED = -9


class AppError(Exception):
    """The app's own code fails."""


def gate_at(place: Place, mode: Mode = "atomic", **choices: Any) -> Gate[Any]:
    return Gate(store_of(place), Policy(**choices), mode=mode)


def ask(key: str = "k-1", body: object = None, *, path: str = "", **headers: str) -> Request:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    raw = json.dumps(body if body is not None else {"id": 1}).encode()
    return Request(headers=(("x-idempotency-key", key), *pairs), body=raw, path=path)


def ordering(response: Response = MADE) -> Work:
    """Place an order, then answer."""

    def work(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        return response

    return work


def outside(response: Response = MADE) -> Work:
    """Work that touches nothing of the gate's database."""
    return lambda _: response


def never(_: Passage[Any]) -> Response:
    raise AssertionError("this copy must not run")


def is_replay(answer: Answer) -> bool:
    return answer.response.header("idempotent-replayed") == "true"


def passage_of(got: "Passage[Any] | Answer") -> Passage[Any]:
    assert isinstance(got, Passage), got
    return got


# rocket-rides-atomic


def test_an_outside_call_inside_a_transaction_pins_rows_and_snapshots(place: Place) -> None:
    gate = gate_at(place, "lease")
    passage = passage_of(gate.enter(ask()))

    if place.dialect == "postgresql":
        open_ = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert place.query(open_) == [(0,)]
    # Nothing is held: anybody may write, to this very row too.
    place.query("UPDATE webhook_idempotency SET request_fields = request_fields")
    place.query(ORDER)
    passage.finish(MADE)


def test_a_transient_outage_is_recorded_for_ever(place: Place) -> None:
    gate = gate_at(place)
    down = gate.run(ask(), ordering(Response.json(503, {"error": "the bank is down"})))

    up = gate.run(ask(), ordering())

    assert (down.response.status, up.response.status, is_replay(up)) == (503, 201, False)
    assert place.orders() == 1


def test_a_lock_by_the_apps_clock_is_taken_by_an_app_whose_clock_is_ahead(place: Place) -> None:
    passage = passage_of(gate_at(place, "lease", lease_s=60).enter(ask()))
    ahead = gate_at(place, "lease", lease_s=60, now_ms=lambda: Policy().now_ms() + 91_000)

    answer = ahead.run(ask(), never)

    assert answer.response.status == 503
    passage.finish(MADE)


def test_after_a_pause_the_late_owners_update_wins(place: Place) -> None:
    gate = gate_at(place, "lease")
    paused = passage_of(gate.enter(ask()))
    place.let_leases_end()
    second = gate.run(ask(), outside(Response.json(201, {"by": "second"})))

    late = paused.finish(Response.json(201, {"by": "paused"}))
    third = gate.run(ask(), never)

    assert second.response.body == b'{"by":"second"}'
    assert late.response.body == third.response.body == second.response.body


def test_other_content_has_one_code_where_the_draft_has_another(place: Place) -> None:
    for answers, code in (("seed", 409), ("ietf", 422)):
        gate = gate_at(place, answers=answers, caller=answers)
        gate.run(ask(), ordering())

        assert gate.run(ask(body={"id": 2}), never).response.status == code


# Powertools for AWS Lambda


def test_an_exception_after_the_effect_runs_the_effect_again(place: Place) -> None:
    gate = gate_at(place)

    def fail(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        raise AppError

    with pytest.raises(AppError):
        gate.run(ask(), fail)
    gate.run(ask(), ordering())

    assert place.orders() == 1


def test_a_slow_first_owner_deletes_the_second_owners_record(place: Place) -> None:
    gate = gate_at(place, "lease")
    slow = passage_of(gate.enter(ask()))
    place.let_leases_end()
    second = passage_of(gate.enter(ask()))

    slow.abandon()
    third = gate.run(ask(), never)

    assert third.response.status == 503
    assert second.finish(MADE).response == MADE


def test_without_a_registered_deadline_a_crash_blocks_until_the_record_expires(
    place: Place,
) -> None:
    gate = gate_at(place, "lease")
    assert run_in_a_child(place, mode="lease", death="inside") == KILLED
    held = place.query("SELECT count(*) FROM webhook_idempotency WHERE lease_until < expires_at")
    place.let_leases_end()

    answer = gate.run(REQUEST, outside())

    assert held == [(1,)]
    assert (answer.response.status, is_replay(answer)) == (201, False)


def test_a_live_record_is_taken_for_an_orphan_and_overwritten(place: Place) -> None:
    gate = gate_at(place, "lease")
    live = passage_of(gate.enter(ask()))

    copies = [gate.run(ask(), never) for _ in range(3)]

    assert {answer.response.status for answer in copies} == {503}
    assert live.finish(MADE).response == MADE


def test_completing_a_record_loses_the_hash_of_its_content(place: Place) -> None:
    gate = gate_at(place)
    gate.run(ask(body={"id": 1, "to": "ann"}), ordering())

    other = gate.run(ask(body={"id": 1, "to": "bob"}), never)

    assert other.response.status == 409
    assert json.loads(other.response.body)["fields"] == ["to"]


def test_work_that_outlasts_its_timeout_is_submitted_again(place: Place) -> None:
    gate = gate_at(place, "lease")
    long = passage_of(gate.enter(ask()))
    place.let_leases_end()

    assert long.renew()
    assert gate.run(ask(), never).response.status == 503
    assert long.finish(MADE).response == MADE


# asgi-idempotency-header


def test_each_failure_that_the_app_renders_leaves_an_effect_behind(place: Place) -> None:
    gate = gate_at(place)
    failures = [gate.run(ask(), ordering(Response.json(500, {}))) for _ in range(3)]

    gate.run(ask(), ordering())

    assert [answer.response.status for answer in failures] == [500, 500, 500]
    assert place.orders() == 1


def test_a_process_that_dies_parks_its_key_for_ever(place: Place) -> None:
    assert run_in_a_child(place, death="inside") == KILLED

    answer = gate_at(place).run(REQUEST, ordering())

    assert (answer.response.status, is_replay(answer)) == (201, False)
    assert place.orders() == 1


def test_a_second_body_gets_the_first_bodys_response(place: Place) -> None:
    gate = gate_at(place)
    gate.run(ask(body={"id": 1}), ordering())

    assert gate.run(ask(body={"id": 2}), never).response.status == 409


def test_a_second_caller_gets_the_first_callers_response(place: Place) -> None:
    gate = gate_at(place, caller=lambda request: next(request.values("x-account"), ""))

    ann = gate.run(ask(x_account="ann"), ordering(Response.json(201, {"for": "ann"})))
    bob = gate.run(ask(x_account="bob"), ordering(Response.json(201, {"for": "bob"})))

    assert (ann.response.body, bob.response.body) == (b'{"for":"ann"}', b'{"for":"bob"}')
    assert place.orders() == 2


def test_a_second_endpoint_gets_the_first_endpoints_response(place: Place) -> None:
    gate = gate_at(place)
    gate.run(ask(path="/orders"), ordering())

    other = gate.run(ask(path="/refunds"), ordering(Response.json(201, {"refund": 1})))

    assert other.response.body == b'{"refund":1}'


def test_after_its_response_expired_a_key_is_pending_for_ever(place: Place) -> None:
    gate = gate_at(place)
    gate.run(ask(), ordering())
    place.let_window_end()

    answer = gate.run(ask(), ordering())

    assert (answer.response.status, is_replay(answer)) == (201, False)


# django-idempotency-key


def test_of_two_firsts_at_once_both_execute(place: Place) -> None:
    gate, start = gate_at(place), threading.Barrier(8)

    def copy() -> Answer:
        start.wait(60)
        return gate.run(ask(), ordering())

    with ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(copy) for _ in range(8)]]

    assert place.orders() == 1
    firsts = [one for one in answers if one.response.status == 201 and not is_replay(one)]
    assert len(firsts) == 1


def test_another_body_under_a_key_silently_becomes_a_new_request(place: Place) -> None:
    gate = gate_at(place)
    gate.run(ask(body={"amount": 10}), ordering())

    other = gate.run(ask(body={"amount": 1000}), never)

    assert json.loads(other.response.body)["fields"] == ["amount"]
    assert place.orders() == 1


def test_a_refreshed_token_executes_again(place: Place) -> None:
    gate = gate_at(place, caller="ann")
    gate.run(ask(authorization="Bearer of-monday"), ordering())

    again = gate.run(ask(authorization="Bearer of-tuesday"), never)

    assert is_replay(again)


def test_the_store_is_the_memory_of_one_process(place: Place) -> None:
    assert run_in_a_child(place) == 0

    again = gate_at(place).run(REQUEST, never)

    assert (again.response.status, is_replay(again)) == (201, True)


def test_recorded_responses_are_pickles(place: Place) -> None:
    gate_at(place).run(ask(), ordering())

    [(body, headers)] = place.query(
        "SELECT response_body, response_headers FROM webhook_idempotency"
    )

    assert bytes(body) == MADE.body
    assert json.loads(headers) == [["content-type", "application/json"]]


def test_one_lock_serialises_the_whole_site(place: Place) -> None:
    # SQLite has one writer, whoever uses it; there only a lease lets others work meanwhile.
    gate = gate_at(place, "atomic" if place.dialect == "postgresql" else "lease")
    slow = passage_of(gate.enter(ask("slow")))

    quick = gate.run(ask("quick"), outside())

    assert quick.response.status == 201
    assert slow.finish(MADE).response == MADE


def test_a_replay_is_served_as_a_409(place: Place) -> None:
    gate = gate_at(place)
    first = gate.run(ask(), ordering())

    again = gate.run(ask(), never)

    assert (again.response.status, again.response.body) == (201, first.response.body)


# Receivers in the wild


def test_an_event_whose_handler_failed_is_already_processed(place: Place) -> None:
    gate = gate_at(place)

    def fail(_: Passage[Any]) -> Response:
        raise AppError

    with pytest.raises(AppError):
        gate.run(ask(), fail)

    assert place.records() == 0
    assert gate.run(ask(), ordering()).response.status == 201
    assert place.orders() == 1


def test_the_mark_is_committed_before_the_work(place: Place) -> None:
    def look(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        assert (place.records(), place.orders()) == (0, 0)
        return MADE

    gate_at(place).run(ask(), look)

    assert (place.records(), place.orders()) == (1, 1)


def test_after_the_200_the_event_lives_in_memory_only(place: Place) -> None:
    assert run_in_a_child(place, death="after") == KILLED

    assert place.orders() == 1
    assert is_replay(gate_at(place).run(REQUEST, never))


def test_a_claim_in_another_store_outlives_the_work_it_stood_for(place: Place) -> None:
    assert run_in_a_child(place, death="inside") == KILLED

    assert (place.records(), place.orders()) == (0, 0)


def test_of_forty_six_deliveries_over_twenty_nine_hours_the_late_ones_are_new(
    place: Place,
) -> None:
    gate = gate_at(place)
    gate.run(ask(), ordering())
    place.query(f"UPDATE webhook_idempotency SET expires_at = {earlier(place, hours=29)}")

    late = [gate.run(ask(), never) for _ in range(45)]

    assert all(is_replay(answer) for answer in late)
    assert place.orders() == 1


def test_a_key_made_of_the_signature_changes_with_each_retry(place: Place) -> None:
    gate = gate_at(place, key=lambda request: json.loads(request.body)["event"]["id"])
    body = {"event": {"id": "evt_1"}}
    gate.run(ask("", body, x_signature="v1,one", x_timestamp="1700000000"), ordering())

    again = gate.run(ask("", body, x_signature="v1,two", x_timestamp="1700000300"), never)

    assert is_replay(again)
    assert place.orders() == 1


def earlier(place: Place, *, hours: int) -> str:
    """Write, in SQL, the end of the window as it would stand so many hours later."""
    if place.dialect == "postgresql":
        return f"expires_at - interval '{hours} hours'"
    return f"strftime('%Y-%m-%d %H:%M:%f', expires_at, '-{hours} hours')"
