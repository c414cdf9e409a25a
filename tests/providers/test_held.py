"""Mail that a provider holds back for now: what it then does with it is what counts."""

import pytest

from mailonce.core.events.facts import kind_of, status
from mailonce.core.events.suppression import statement_of
from tests.providers.cases import find, parse

HELD = [
    ("postal", "held", "sent"),
    ("mailtrap", "suspension", "delivery"),
    ("emailit", "email_held", "email_delivered"),
    ("emailit", "v1_held", "v1_sent"),
]


@pytest.mark.parametrize(("provider", "held", "delivered"), HELD, ids=str)
def test_a_held_mail_may_still_be_delivered(provider: str, held: str, delivered: str) -> None:
    cases = [find(provider, held), find(provider, delivered)]
    first, then = (parse(provider, case.body, case.headers).events[0] for case in cases)
    words = [
        status([kind_of(first)]),
        status([kind_of(first), kind_of(then)]),
        status([kind_of(then), kind_of(first)]),
    ]

    assert words == ["held", "delivered", "delivered"]
    assert (first.type, statement_of(first)) == ("rejected", None)


@pytest.mark.parametrize(
    ("provider", "case", "option"),
    [
        ("postal", "held", "held"),
        ("mailtrap", "suspension", "suspension"),
        ("emailit", "email_held", "held"),
    ],
)
def test_an_operator_who_never_releases_says_so(provider: str, case: str, option: str) -> None:
    held = find(provider, case)
    [event] = parse(provider, held.body, held.headers, **{option: "rejected"}).events

    assert status([kind_of(event)]) == "rejected"
