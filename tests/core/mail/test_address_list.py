import pytest

from mailonce.core.mail.budget import DigestLimits
from mailonce.core.mail.mime.address_list import read_addresses
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("a@example.com", [("a@example.com", None)]),
        ("Ann <a@Example.COM>", [("a@example.com", "Ann")]),
        ('"Doe, A" <a@x.example>, b@y.example', [("a@x.example", "Doe, A"), ("b@y.example", None)]),
        ("Doe, Ann <a@x.example>", [("a@x.example", "Doe, Ann")]),
        ('"Ann \\"A\\" Doe" <a@x.example>', [("a@x.example", 'Ann "A" Doe')]),
        ("a@x.example (Ann (of York) Doe)", [("a@x.example", "Ann (of York) Doe")]),
        ("Team: a@x.example, Bob <b@y.example>;", [("a@x.example", None), ("b@y.example", "Bob")]),
        ("undisclosed-recipients:;", []),
        ("<@one.example,@two.example:a@x.example>", [("a@x.example", None)]),
        ("=?utf-8?q?J=C3=BCrgen?= <j@x.example>", [("j@x.example", "Jürgen")]),
        # An encoded word adds no address.
        ("=?utf-8?q?x=40evil.example=3E=2C?= <j@x.example>", [("j@x.example", "x@evil.example>,")]),
        ('"=?utf-8?q?J=C3=BCrgen?=" <j@x.example>', [("j@x.example", "Jürgen")]),
        ('"boss@bank.example" <a@evil.example>', [("a@evil.example", "boss@bank.example")]),
        ('"john smith"@x.example', [('"johnsmith"@x.example', None)]),
        ("ann@bücher.example", [("ann@xn--bcher-kva.example", None)]),
        ("用户@例子.example", [("用户@xn--fsqu00a.example", None)]),
        ("a@[192.0.2.1]", [("a@[192.0.2.1]", None)]),
        ("a@x.example; b@y.example", [("a@x.example", None), ("b@y.example", None)]),
        ("mailto:a@x.example", [("a@x.example", None)]),
        ("Ann <a@x.example", [("a@x.example", "Ann")]),
        ("<>", [("", None)]),
        ("", []),
    ],
)  # fmt: skip
def test_addresses_are_read_as_senders_write_them(
    value: str, addresses: list[tuple[str, str | None]]
) -> None:
    found = read_addresses(value, make_budget())

    assert [(one.address, one.name) for one in found] == addresses


@pytest.mark.parametrize("value", ["nobody", "a b c", "Ann <nobody>", "a@b@c d", "a@x..y!"])
def test_what_is_no_address_is_named(value: str) -> None:
    budget = make_budget()

    read_addresses(value, budget)

    assert MailProblem.BAD_ADDRESS in budget.problems


def test_addresses_are_bounded() -> None:
    budget = make_budget(DigestLimits(addresses_max=10))

    assert len(read_addresses("a@x.example," * 5_000, budget)) == 10
    assert budget.problems == {MailProblem.TOO_MANY_ADDRESSES}


def test_comments_of_any_depth_end() -> None:
    read_addresses("(" * 100_000 + "a@x.example", make_budget())
    read_addresses("a@x.example" + "()" * 50_000, make_budget())
