"""The breaker opens after failures in a row and closes with one success."""

from mailonce.core.work.breaker import Breaker, BreakerRule

RULE = BreakerRule(failures=3, wait_s=5, wait_s_max=12)


def opened(at_s: float = 100.0) -> Breaker:
    breaker = Breaker(RULE)
    for _ in range(RULE.failures):
        breaker.failed(at_s)
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker(RULE)

    opened = [breaker.failed(1), breaker.failed(1), breaker.succeeded(), breaker.failed(1)]
    opened += [breaker.failed(1), breaker.failed(1)]

    assert opened == [False, False, False, False, False, True]
    assert breaker.is_open


def test_while_open_one_attempt_at_a_time_looks() -> None:
    breaker = opened()
    before = breaker.allows(104.9)
    then = breaker.allows(105.0)

    breaker.started()

    assert (before, then, breaker.allows(105.1)) == (0, 1, 0)


def test_a_look_that_fails_doubles_the_wait_up_to_its_limit() -> None:
    breaker = opened()
    waits = []

    for now_s in (200.0, 300.0, 400.0):
        breaker.started()
        breaker.failed(now_s)
        waits.append(breaker.next_look_s - now_s)

    assert waits == [10, 12, 12]


def test_attempts_under_way_when_it_opened_do_not_push_the_look_away() -> None:
    breaker = opened(at_s=100.0)

    breaker.failed(104.0)

    assert breaker.next_look_s == 105.0


def test_a_success_closes_it_and_forgets_the_wait() -> None:
    breaker = opened()
    breaker.started()
    breaker.failed(200.0)

    assert breaker.succeeded()
    assert breaker.allows(200.0) is None
    for _ in range(RULE.failures):
        breaker.failed(300.0)
    assert breaker.next_look_s == 305.0


def test_a_look_that_told_nothing_is_followed_by_another() -> None:
    breaker = opened()
    breaker.started()

    breaker.abandoned()

    assert breaker.allows(105.0) == 1
