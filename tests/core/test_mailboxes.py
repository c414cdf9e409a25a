"""Address headers, as people and programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail.incoming import AddressField
from mailonce.core.reading.mailboxes import MAILBOXES_MAX, read_mailboxes

ANN = AddressField("ann@example.net", "Ann")
BARE = AddressField("ann@example.net")


@pytest.mark.parametrize(
    ("text", "mailboxes"),
    [
        ("ann@example.net", [BARE]),
        ("<ann@example.net>", [BARE]),
        ("Ann <ann@example.net>", [ANN]),
        ('"Ann" <ann@example.net>', [ANN]),
        (' "Ann"\r\n <ann@example.net> , bob@example.net', [ANN, AddressField("bob@example.net")]),
        ('"Lee, Ann" <ann@example.net>', [AddressField("ann@example.net", "Lee, Ann")]),
        (r'"A \"B\" \\C" <ann@example.net>', [AddressField("ann@example.net", r'A "B" \C')]),
        ("ann@example.net (Ann)", [ANN]),
        ("Ann (at (home)) <ann@example.net>", [ANN]),
        ("Friends: Ann <ann@example.net>, ann@example.net;", [ANN, BARE]),
        ("undisclosed-recipients:;", []),
        ("Grüße Ünal <ann@example.net>", [AddressField("ann@example.net", "Grüße Ünal")]),
        ("Ann <ann@example.net", [ANN]),
        ("ann@[IPv6:2001:db8::1]", [AddressField("ann@[IPv6:2001:db8::1]")]),
        ("", []),
        ("nobody", []),
        (",,;:()<>", []),
        ('"unfinished', []),
    ],
)
def test_mailboxes_are_read_as_they_are_meant(text: str, mailboxes: list[AddressField]) -> None:
    assert list(read_mailboxes(text)) == mailboxes


def test_a_long_header_is_read_up_to_the_limit() -> None:
    assert len(read_mailboxes("a@b," * (MAILBOXES_MAX + 5))) == MAILBOXES_MAX


def test_nesting_costs_no_stack() -> None:
    assert read_mailboxes("(" * 500_000 + "ann@example.net") == ()


@given(st.text(alphabet='ab@<>(),;:"\\ \x00\ud800é'))
def test_any_text_gives_storable_mailboxes(text: str) -> None:
    for one in read_mailboxes(text):
        (one.address + (one.name or "")).encode()
        assert "\x00" not in one.address
        assert "@" in one.address
