"""Loops: what the shared suites cannot say."""

import pytest

from mailonce.core.events.suppression import Cause, SuppressionStatement, statement_of
from tests.providers.cases import find, keys, parse, provider_of, source_of
from tests.providers.signing import standard_secret


def test_each_webhook_id_is_an_event_of_its_own() -> None:
    case = find("loops", "email_opened")
    another = {**case.headers, "webhook-id": "msg_2"}

    [one], [other] = (keys("loops", case.value, headers) for headers in (case.headers, another))

    assert one.key != other.key


def test_the_attempt_of_a_redelivery_changes_nothing() -> None:
    case = find("loops", "email_opened")
    again = {**case.headers, "webhook-timestamp": "1767229999", "webhook-signature": "v1,AAAA"}

    assert keys("loops", case.value, again) == keys("loops", case.value, case.headers)


def test_the_webhook_id_names_the_delivery() -> None:
    case = find("loops", "email_opened")

    assert parse("loops", case.value, case.headers).delivery_id == "msg_1"


def test_a_copy_that_lost_its_headers_is_known_by_its_body() -> None:
    value = find("loops", "email_opened").value

    [one], [same], [other] = (
        keys("loops", body) for body in (value, dict(value), {**value, "eventTime": 1})
    )

    assert one == same
    assert one.key != other.key


@pytest.mark.parametrize(
    ("name", "say"),
    [
        (
            "email_unsubscribed",
            SuppressionStatement("ann@example.net", "", Cause.UNSUBSCRIBE, lifts=False),
        ),
        (
            "email_unsubscribed_from_stream",
            SuppressionStatement("ann@example.net", "newsletters", Cause.UNSUBSCRIBE, lifts=False),
        ),
        (
            "email_resubscribed",
            SuppressionStatement("ann@example.net", "", Cause.UNSUBSCRIBE, lifts=True),
        ),
        ("email_soft_bounced", None),
        ("contact_unsubscribed", None),
        ("test_event", None),
    ],
)
def test_what_an_event_says_of_the_address(name: str, say: SuppressionStatement | None) -> None:
    case = find("loops", name)

    [event] = parse("loops", case.value, case.headers, **case.options).events

    assert statement_of(event) == say


def test_a_secret_that_is_not_base64_is_a_fault() -> None:
    check = provider_of("loops").check

    assert check(source_of("loops", secrets=(standard_secret("a"),))) is None
    assert "'secret'" in (check(source_of("loops", secrets=("not base64!",))) or "")
