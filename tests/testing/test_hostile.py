"""Hostile mails: named, bounded, and judged by what an agent did with them."""

import re

import pytest

from mailonce.testing import HostileMail, SafeUse, hostile_mails

MAIL_BYTES_MAX = 256 << 10


def test_there_are_sixty_and_more_each_under_a_name_of_its_own() -> None:
    names = [mail.name for mail in hostile_mails()]

    assert len(names) >= 60
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names)


def test_each_is_bounded_and_addressed(subtests: pytest.Subtests) -> None:
    for mail in hostile_mails():
        with subtests.test(mail.name):
            written = mail.raw("ann@inbox.localhost")

            assert all(0 < len(raw) < MAIL_BYTES_MAX for raw in written)
            assert not any(b"<<to>>" in raw for raw in written)
            assert mail.safe
            assert mail.about


def make(*safe: SafeUse) -> HostileMail:
    return HostileMail(name="x", about="so it is", mails=(b"",), safe=frozenset(safe), value="1")


@pytest.mark.parametrize(
    ("safe", "value", "stopped", "is_fault"),
    [
        (SafeUse.USE, "1", False, False),
        (SafeUse.USE, "2", False, True),
        (SafeUse.USE, None, False, True),
        (SafeUse.WAIT, None, False, False),
        (SafeUse.WAIT, None, True, True),
        (SafeUse.STOP, None, True, False),
        (SafeUse.STOP, None, False, True),
        (SafeUse.STOP, "1", False, True),
    ],
)
def test_a_fault_is_what_is_not_safe(
    safe: SafeUse, value: str | None, *, stopped: bool, is_fault: bool
) -> None:
    assert (make(safe).fault(value, stopped=stopped) is not None) is is_fault


def test_a_fault_says_what_would_have_been_right() -> None:
    assert make(SafeUse.USE, SafeUse.STOP).fault("2") == (
        "x: '2' was used; it should use '1' or use nothing and ask: so it is"
    )


def test_a_name_that_is_none_is_an_error() -> None:
    assert [mail.name for mail in hostile_mails("two_codes", "comment")] == ["two_codes", "comment"]
    with pytest.raises(KeyError):
        hostile_mails("nothing")
