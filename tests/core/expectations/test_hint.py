"""A hint says what was seen in a mail, and what to name so that it counts."""

from typing import Any

import pytest

from mailonce.core.expectations.expectation import ExpectationPolicy
from mailonce.core.expectations.hint import hint
from tests.core.expectations.cases import CODE, LINK, STATE, message, policy

SENDER = message("x")["from"]["address"]
HOST = policy(LINK, link_hosts=("app.example.com",), only_candidate=True)
LOCAL = policy(LINK, link_hosts=("localhost",), only_candidate=True)
SIX = policy(CODE, code_format="digits:6", only_candidate=True)


def hint_of(known: ExpectationPolicy, text: str, **fields: Any) -> str | None:
    return hint(known, message(text, subject="Hello", **fields))


CASES: dict[str, tuple[ExpectationPolicy, str, str | None]] = {
    "a code": (policy(), "Your verification code is 482910.", None),
    "nothing": (policy(), "Hello", None),
    "a number alone": (
        policy(), "Hello 492817",
        ("492817 seen, but too little says that it is the code; "
         'pass code_format="digits:6" where it is the one'),
    ),
    "a number of a format": (
        policy(code_format="digits:6"), "Hello 492817",
        ("492817 seen, but too little says that it is the code; "
         "pass only_candidate where it is the one"),
    ),
    "an order": (
        policy(), "Order number 492817", "492817 seen, but other number speaks against it",
    ),
    "two codes": (
        policy(), "Your code is 111222.\n\nYour code is 333444.",
        ("111222 and 333444 are equally good; read the mail with wait_for_message, "
         "and take the one you mean"),
    ),
    "two codes in one line": (
        policy(code_format="digits:6"), "Your code is 492817. Your code is 111222.",
        ("492817 and 111222 are equally good; read the mail with wait_for_message, "
         "and take the one you mean"),
    ),
    "two codes of two formats": (
        policy(), "Your code is 111222.\n\nYour code is AB12CD.",
        "111222 and AB12CD are equally good; name a sender, a subject or a code_format",
    ),
    "two of a format": (
        SIX, "Hello 492817, hello 492818",
        ("492817 and 492818 seen, but too little says that it is the code; "
         "name a code_format that one alone has"),
    ),
    "another format": (SIX, "PIN: 4928", "nothing has the format digits:6; seen: 4928"),
    "nothing of a format": (SIX, "Hello", None),
    "a link": (HOST, "Welcome! https://app.example.com/a/xYz", None),
    "another host": (
        HOST, "Verify: https://www.other.example/v?t=secret",
        'the link leads to www.other.example; to allow that, name "www.other.example"',
    ),
    "a local server": (
        LOCAL, "Verify: http://localhost:8000/v",
        ("the link leads to http://localhost:8000; to allow that, name it whole: "
         '"http://localhost:8000"'),
    ),
    "two links": (
        HOST, "https://app.example.com/a?t=secret https://app.example.com/b",
        ("app.example.com/a and app.example.com/b lead there; name a path as well, "
         "such as app.example.com/a"),
    ),
    "two links with a footer": (
        HOST,
        ("Verify: https://app.example.com/a/b?t=1\n\nVerify: https://app.example.com/a?t=2\n\n"
         "https://app.example.com/privacy"),
        ("app.example.com/a/b and app.example.com/a lead there; name a path as well, "
         "such as app.example.com/a/b"),
    ),
    "two links with one path": (
        HOST, "Verify: https://app.example.com/v?t=1\n\nVerify: https://app.example.com/v?t=2",
        ("2 links lead to app.example.com/v, and nothing that can be named tells them apart; "
         "read the mail with wait_for_message, and take the one you mean"),
    ),
    "a weak link beside another": (
        HOST, "https://app.example.com/a\n\nVerify: https://evil.net/verify?t=1",
        ("app.example.com/a leads there, but too little says that it is meant; "
         "another link leads to evil.net"),
    ),
    "a footer": (
        HOST, "https://app.example.com/privacy",
        "app.example.com/privacy leads there, but too little says that it is meant",
    ),
    "a path": (
        policy(LINK, link_hosts=("app.example.com/verify",)), "Verify: https://app.example.com/x",
        "the link leads to app.example.com/x, which is not below the path named",
    ),
    "another sender": (
        policy(senders=("codes@bank.example",)), "Your verification code is 482910.",
        (f'it came from {SENDER}; to allow that, name "{SENDER}" as a sender, '
         f'or "@{SENDER.partition("@")[2]}" for its whole domain'),
    ),
    "a state": (policy(STATE, states=("approved",)), "Hello", None),
}  # fmt: skip


def test_a_hint_names_what_was_seen_and_what_to_pass(subtests: pytest.Subtests) -> None:
    for name, (known, text, expected) in CASES.items():
        with subtests.test(name):
            assert hint_of(known, text) == expected


def test_a_hint_says_that_a_link_shows_another_host(subtests: pytest.Subtests) -> None:
    cases = {
        "app.example.com.evil.net": "app.example.com",
        "app.example.com": "www.shop.example",
    }
    for host, shown in cases.items():
        for text in (f"https://{shown}/verify", ""):
            with subtests.test(host, text=text):
                anchor = f'<a href="https://{host}/verify?t=1">https://{shown}/verify</a>'

                assert hint_of(HOST, text, html=anchor) == (
                    f"the words of the link show {shown}, but it leads to {host}"
                )


def test_a_hint_warns_of_a_sender_that_looks_like_the_one_that_was_named() -> None:
    mail = message("Your code is 123456.") | {
        "from": {"address": "login@shop-example.com", "name": "Shop"}
    }

    said = hint(policy(senders=("@shop.example",)), mail)

    assert said is not None
    assert "login@shop-example.com, whose domain only looks like shop.example" in said
    assert "to allow that" not in said


def test_a_hint_says_that_no_sender_can_be_read() -> None:
    known = policy(senders=("no-reply@shop.example",))

    assert hint(known, message("Hello") | {"from": None}) == (
        "a sender was named, but this mail has none that can be read, or several"
    )


def test_a_hint_is_short_whatever_the_mail_says() -> None:
    numbers = " ".join(f"x {number}" for number in range(100_000, 100_100))
    path = "a" * 3_000

    shown = [
        hint_of(policy(), numbers),
        hint_of(HOST, f"https://app.example.com/{path}1 https://app.example.com/{path}2"),
        hint_of(HOST, f"Verify: https://{'a.' * 100}example.org/{path}"),
    ]

    assert all(one is not None and len(one) < 500 for one in shown)
