"""What a receiving server's answer says of a bounce."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.events.event import Bounce
from mailonce.core.reading.smtp_reply import bounce_of


@pytest.mark.parametrize(
    ("answer", "bounce"),
    [
        ("550 5.1.1 no such user", Bounce.HARD),
        ("550-5.1.1 The email account that you tried to reach does not exist", Bounce.HARD),
        ("smtp; 550 5.1.10 RESOLVER.ADR.RecipientNotFound", Bounce.HARD),
        ("5.1.2", Bounce.HARD),
        ("mx.example.net [192.0.2.1] said: 550 unknown user", Bounce.HARD),
        ("551 User not local", Bounce.HARD),
        ("550 5.2.1 The account is disabled", Bounce.HARD),
        ("552 5.2.2 over quota", Bounce.SOFT),
        ("552 Requested mail action aborted", Bounce.SOFT),
        ("421 try again later", Bounce.SOFT),
        ("450 4.2.0 Greylisted", Bounce.SOFT),
        ("4.4.7 Message expired", Bounce.SOFT),
        ("550 5.4.4 no MX", Bounce.SOFT),
        ("554 5.7.1 Message rejected as spam", Bounce.BLOCKED),
        ("550 5.7.26 Unauthenticated email", Bounce.BLOCKED),
        ("554 Transaction failed", Bounce.UNDETERMINED),
        ("552 5.3.4 Message too big", Bounce.SOFT),
        ("", Bounce.UNDETERMINED),
        ("mailbox unavailable", Bounce.UNDETERMINED),
    ],
)
def test_the_enhanced_code_counts_before_the_reply_code(answer: str, bounce: Bounce) -> None:
    assert bounce_of(answer) is bounce


@pytest.mark.parametrize(
    "answer",
    [
        "no answer from 5.1.1.9",
        "no answer from 10.5.1.1",
        "host mail-550.example.net refused",
        "after 5501 s",
        "version 5.1.1.2",
        "ticket A550",
    ],
)
def test_what_only_looks_like_a_code_is_none(answer: str) -> None:
    assert bounce_of(answer) is Bounce.UNDETERMINED


@given(st.text())
def test_any_text_has_a_class(answer: str) -> None:
    assert bounce_of(answer) in Bounce
