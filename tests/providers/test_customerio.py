"""Customer.io: what the shared suites cannot say."""

import pytest

from mailonce.core.events.suppression import Cause, SuppressionStatement, statement_of
from tests.providers.cases import cases_of, find, keys, parse, provider_of

HARD = SuppressionStatement("ann@example.net", "", Cause.HARD, lifts=False)
LEFT = SuppressionStatement("ann@example.net", "", Cause.UNSUBSCRIBE, lifts=False)
BACK = SuppressionStatement("ann@example.net", "", Cause.UNSUBSCRIBE, lifts=True)
REJECTED = SuppressionStatement("ann@example.net", "", Cause.REJECTED, lifts=False)
COMPLAINED = SuppressionStatement("ann@example.net", "", Cause.COMPLAINT, lifts=False)
SAID = {
    "bounce_hard": HARD,
    "bounce_hard_without_enhanced_code": HARD,
    "customer_unsubscribed": LEFT,
    "email_unsubscribed": LEFT,
    "customer_subscribed": BACK,
    "email_dropped": REJECTED,
    "email_suppressed": REJECTED,
    "email_spammed": COMPLAINED,
}


def test_only_what_is_said_of_email_suppresses_an_address(subtests: pytest.Subtests) -> None:
    for case in cases_of("customerio"):
        with subtests.test(case.name):
            [event] = parse("customerio", case.value).events

            assert statement_of(event) == SAID.get(case.name)


def test_an_event_without_an_id_is_known_by_all_of_it() -> None:
    value = find("customerio", "email_opened").value
    del value["event_id"]

    [one], [same], [later] = (
        keys("customerio", body) for body in (value, dict(value), {**value, "timestamp": 1})
    )

    assert one == same
    assert one.key != later.key


def test_the_event_id_names_the_delivery() -> None:
    value = find("customerio", "email_opened").value

    assert parse("customerio", value).delivery_id == value["event_id"]


def test_no_answer_of_ours_makes_the_feed_pause_for_an_hour() -> None:
    """https://docs.customer.io/journeys/webhooks/: after these, all later events wait as well."""
    pausing = {400, 402, 403, 404, 405, 410, 429, 500, 502, 521}

    codes = provider_of("customerio").codes

    assert not {codes.done, codes.later, codes.full} & pausing
