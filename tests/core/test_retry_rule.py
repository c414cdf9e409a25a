"""A rule stands for a route, a sender or anything else that is tried."""

from dataclasses import fields, replace

from mailonce.core.deliveries.route import Route
from mailonce.core.work.job import AttemptOutcome
from mailonce.core.work.response_outcome import GiveUp, RetryIn, judge
from mailonce.core.work.retry_rule import WorkRule

ROUTE = Route(id="rte_1", workspace="default", name="crm", url="https://crm.example.com/")


def test_a_route_gives_all_of_its_rule() -> None:
    changed = replace(
        ROUTE, waits_s=(1, 2), deadline_s=9, blamed_attempts_max=3, timeout_s=4.0, concurrency=5,
        rate_per_s=6.0, off="by a person",
    )  # fmt: skip

    # Slots for first attempts, and calls longer than a lease, are of senders alone.
    names = {one.name for one in fields(WorkRule)} - {"reserved", "attempt_s_max"}
    assert {name: getattr(changed, name) for name in names} == {
        "waits_s": (1, 2),
        "deadline_s": 9,
        "blamed_attempts_max": 3,
        "timeout_s": 4.0,
        "concurrency": 5,
        "rate_per_s": 6.0,
        "off": "by a person",
    }
    assert changed.rule == WorkRule(
        waits_s=(1, 2), deadline_s=9, blamed_attempts_max=3, timeout_s=4.0, concurrency=5,
        rate_per_s=6.0, off="by a person",
    )  # fmt: skip


def test_work_without_a_route_is_judged_by_its_rule() -> None:
    rule = WorkRule(waits_s=(10,), deadline_s=60)

    def after(step: int, outcome: AttemptOutcome) -> object:
        return judge(outcome, rule, step=step, left_ms=60_000, dice=0.5)

    assert after(1, AttemptOutcome(error="timeout")) == RetryIn(10_000)
    assert after(2, AttemptOutcome(error="timeout")) == GiveUp("attempts")
    assert after(1, AttemptOutcome(error="no bytes", dead_reason="gone")) == GiveUp("gone")
