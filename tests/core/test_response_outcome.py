"""What follows an attempt, by class of answer, step, deadline and Retry-After."""

from dataclasses import replace
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.deliveries.route import WAITS_S, Route
from mailonce.core.work import response_outcome
from mailonce.core.work.job import AttemptOutcome
from mailonce.core.work.response_outcome import Done, GiveUp, RetryIn, SwitchOff, Verdict, judge

DAY_MS = 86_400_000
ROUTE = Route(id="rte_1", workspace="default", name="crm", url="https://crm.example.com/")
SHORT = Route(
    id="rte_2", workspace="default", name="short", url="https://x.example/", waits_s=(1, 10),
    blamed_attempts_max=2,
)  # fmt: skip


def after(
    outcome: AttemptOutcome,
    *,
    route: Route = ROUTE,
    step: int = 1,
    left_ms: int = 4 * DAY_MS,
    dice: float = 0.5,
) -> Verdict:
    return judge(outcome, route.rule, step=step, left_ms=left_ms, dice=dice)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_done(status: int) -> None:
    assert after(AttemptOutcome(status=status)) == Done()


def test_a_202_of_a_gate_that_is_still_at_it_is_asked_again() -> None:
    assert after(AttemptOutcome(status=202, processing=True)) == RetryIn(5_000)


@pytest.mark.parametrize("status", [None, 100, 301, 302, 304, 307, 408, 409, 425, 429, 500])
def test_what_may_pass_is_tried_to_the_end_of_the_schedule(status: int | None) -> None:
    outcome = AttemptOutcome(status=status, error="no")

    waits = [after(outcome, step=step + 1) for step in range(len(WAITS_S))]

    assert waits == [RetryIn(wait * 1000) for wait in WAITS_S]
    assert after(outcome, step=len(WAITS_S) + 1) == GiveUp("attempts")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422, 451])
def test_what_blames_the_request_is_not_asked_again_unless_it_is_wished(status: int) -> None:
    outcome, patient = AttemptOutcome(status=status), replace(ROUTE, blamed_attempts_max=4)

    verdicts = [after(outcome, route=patient, step=step) for step in (1, 2, 3, 4)]

    assert after(outcome) == GiveUp("permanent")
    assert verdicts == [*(RetryIn(wait * 1000) for wait in (5, 30, 120)), GiveUp("permanent")]


def test_what_our_own_guard_refused_is_named_so() -> None:
    outcome = AttemptOutcome(error="not a public address", refused=True)

    assert after(outcome, route=SHORT) == RetryIn(1_000)
    assert after(outcome, route=SHORT, step=2) == GiveUp("refused")


@pytest.mark.parametrize("step", [1, 2, 9])
def test_a_410_switches_the_route_off_at_any_step(step: int) -> None:
    assert isinstance(after(AttemptOutcome(status=410), route=SHORT, step=step), SwitchOff)


@given(st.floats(0, 1), st.integers(1, len(WAITS_S)))
def test_jitter_stays_within_a_fifth(dice: float, step: int) -> None:
    verdict = after(AttemptOutcome(status=500), step=step, dice=dice)

    assert isinstance(verdict, RetryIn)
    wait_ms = WAITS_S[step - 1] * 1000
    assert 0.8 * wait_ms - 1 <= verdict.wait_ms <= 1.2 * wait_ms


def test_jitter_spreads() -> None:
    assert after(AttemptOutcome(status=500), dice=0.0) == RetryIn(4_000)
    assert after(AttemptOutcome(status=500), dice=1.0) == RetryIn(6_000)


def test_an_attempt_beyond_the_deadline_is_not_made() -> None:
    assert after(AttemptOutcome(status=500), left_ms=4_999) == GiveUp("deadline")
    assert after(AttemptOutcome(status=500), left_ms=5_000) == RetryIn(5_000)
    assert after(AttemptOutcome(status=200), left_ms=-1) == Done()


def test_retry_after_is_honoured_where_it_is_longer() -> None:
    assert after(AttemptOutcome(status=503, retry_after_ms=60_000)) == RetryIn(60_000)
    assert after(AttemptOutcome(status=503, retry_after_ms=1_000)) == RetryIn(5_000)


def test_retry_after_is_capped_by_an_hour_the_step_and_the_deadline() -> None:
    forever = AttemptOutcome(status=429, retry_after_ms=999 * DAY_MS)

    assert after(forever) == RetryIn(3_600_000)
    assert after(forever, step=9) == RetryIn(WAITS_S[8] * 1000)
    assert after(forever, left_ms=50_000) == RetryIn(50_000)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("120", 120_000),
        (" 7 ", 7_000),
        ("0", 0),
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 60, 999_999_999_999_000),
        ("Thu, 99 Foo 2026 00:00:00 GMT", None),
    ],
)
def test_retry_after_in_seconds(header: str | None, expected: int | None) -> None:
    assert response_outcome.retry_after_ms(header, now_ms=0) == expected


def test_retry_after_as_a_date() -> None:
    now_ms = 1_800_000_000_000

    assert (
        response_outcome.retry_after_ms(formatdate(1_800_000_090, usegmt=True), now_ms=now_ms)
        == 90_000
    )
    assert (
        response_outcome.retry_after_ms(formatdate(1_799_999_000, usegmt=True), now_ms=now_ms) == 0
    )


@given(
    st.integers(100, 599) | st.none(),
    st.integers(1, 30),
    st.integers(-DAY_MS, 9 * DAY_MS),
    st.integers(0, 9 * DAY_MS) | st.none(),
    st.floats(0, 1),
)
def test_every_delivery_ends(
    status: int | None, step: int, left_ms: int, after_ms: int | None, dice: float
) -> None:
    outcome = AttemptOutcome(status=status, error="no", retry_after_ms=after_ms)

    verdict = after(outcome, step=step, left_ms=left_ms, dice=dice)

    if isinstance(verdict, RetryIn):
        assert step <= len(WAITS_S)
        assert 0 <= verdict.wait_ms <= max(left_ms, 0)


def test_an_endpoint_is_well_that_answers_for_itself() -> None:
    assert [
        response_outcome.is_well(AttemptOutcome(status=status))
        for status in (200, 202, 404, 422, 429, 500, 302)
    ] == [True, True, True, True, False, False, False]
    assert not response_outcome.is_well(AttemptOutcome(error="timeout"))
    assert not response_outcome.is_well(AttemptOutcome(error="private", refused=True))
