"""The state of an expectation follows from its mails and consumptions."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.expectations.consumption import Consumption, ConsumptionState, standings
from mailonce.core.expectations.expectation import Expectation, ExpectationState
from mailonce.core.expectations.match_mail import MailOutcome
from mailonce.core.expectations.settle import MailMatch, Settlement, counted, settle, superseding
from tests.core.expectations.cases import (
    MINUTE_MS,
    NOON_MS,
    candidate,
    consumption,
    expectation,
    match,
)

READY, PENDING, AMBIGUOUS = (
    ExpectationState.READY,
    ExpectationState.PENDING,
    ExpectationState.AMBIGUOUS,
)
REJECTED = ConsumptionState.REJECTED


def settled(
    *mails: MailMatch,
    known: Expectation | None = None,
    used: tuple[Consumption, ...] = (),
    **at: Any,
) -> Settlement:
    now_ms = at.pop("now_ms", NOON_MS)
    return settle(known or expectation(), mails, standings(used), now_ms=now_ms, **at)


def offered(settlement: Settlement) -> str | None:
    return None if settlement.offer is None else settlement.offer.candidate.artifact.decode()


def test_the_latest_matching_mail_wins() -> None:
    outcome = settled(match(3, "333"), match(1, "111"))

    assert (outcome.state, offered(outcome), outcome.candidates) == (READY, "333", 2)


def test_a_mail_that_says_what_its_value_is_for_wins_over_one_that_does_not() -> None:
    weak = msgspec.structs.replace(candidate("welcome"), speaks_for=("only_link",))
    before, later = (match(seq, candidates=(weak,), sender="x@y.example") for seq in (1, 3))
    strong = match(2, "verify")

    several = [(before, strong), (strong, later), (before, strong, later)]
    outcomes = [settled(*mails, known=expectation(resends=5)) for mails in several]

    assert [offered(one) for one in outcomes] == ["verify"] * 3
    assert offered(settled(before)) == "welcome"


def test_what_cannot_be_told_is_ambiguous() -> None:
    two = match(1, "111", "222", outcome=MailOutcome.AMBIGUOUS)
    stale = match(1, "111", is_stale=True)
    other = match(2, "222", sender="x@shop.example")

    assert settled(two).reason == "equally_good"
    assert settled(stale).reason == "stale_suspect"
    assert settled(match(1, "111"), other).reason == "different_senders"
    assert settled(match(1, "222"), other).state is READY
    # A later mail that is clear decides.
    assert offered(settled(two, match(2, "333"))) == "333"
    assert offered(settled(stale, match(2, "333"))) == "333"


def test_a_consumption_freezes_the_choice_and_a_rejection_demotes_it() -> None:
    first, second = match(1, "111"), match(2, "222")
    mine = consumption("111")

    frozen = settled(first, second, used=(mine,))

    assert (frozen.state, offered(frozen)) == (ExpectationState.CONSUMED, "111")
    rejected = consumption("222", state=REJECTED)
    assert offered(settled(first, second, used=(rejected,))) == "111"
    assert superseding([first, second], b"111") == [b"222"]
    assert superseding([first, second], b"222") == []


def test_the_budget_ends_a_loop() -> None:
    mails = [match(n, str(n)) for n in range(1, 4)]

    assert settled(*mails[:2]).state is READY
    assert settled(*mails).reason == "too_many_mails"
    assert counted([*mails, match(4, "4", is_stale=True)]) == 3
    last = settled(
        match(1, "1"), known=expectation(resends=0), used=(consumption("1", state=REJECTED),)
    )
    assert last.reason == "all_rejected"
    again = settled(match(1, "1"), used=(consumption("1", state=REJECTED),))
    assert again.state is PENDING


def test_nothing_expires_while_mail_is_being_read() -> None:
    late = NOON_MS + 3 * MINUTE_MS

    assert settled(now_ms=late).state is ExpectationState.EXPIRED
    assert settled(now_ms=late, is_reading=True).state is PENDING
    assert settled(now_ms=NOON_MS + 2 * MINUTE_MS).state is PENDING
    assert settled(match(1, "1"), now_ms=late).state is READY


def test_a_quarantined_mail_shows_why() -> None:
    held = match(1, outcome=MailOutcome.QUARANTINED, reason="dmarc_fail")

    outcome = settled(held)

    assert (outcome.state, outcome.reason) == (ExpectationState.QUARANTINED, "dmarc_fail")
    assert settled(held, match(2, "222")).state is READY


def test_what_another_expectation_of_the_subject_holds_is_consumed() -> None:
    elsewhere = consumption("111", expectation=b"x" * 16)

    outcome = settled(match(1, "111"), used=(elsewhere,))

    assert (outcome.state, outcome.reason) == (ExpectationState.CONSUMED, "consumed_elsewhere")


def test_what_has_ended_stays_so() -> None:
    ended = expectation(state=ExpectationState.EXPIRED, reason="deadline")

    assert settled(match(1, "111"), known=ended).state is ExpectationState.EXPIRED


MATCHES = st.builds(
    lambda seq, value, outcome, stale: match(seq, value, outcome=outcome, is_stale=stale),
    st.integers(1, 6),
    st.sampled_from(["111", "222", "333"]),
    st.sampled_from(MailOutcome),
    st.booleans(),
)


@given(st.lists(MATCHES, max_size=6, unique_by=lambda one: one.seq), st.randoms())
def test_order_does_not_matter(mails: list[MailMatch], random: Any) -> None:
    shuffled = list(mails)
    random.shuffle(shuffled)

    assert settled(*mails) == settled(*shuffled)
