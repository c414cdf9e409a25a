"""Words of a header: whatever they hold, they are read back as they were and end no line."""

from email.header import decode_header, make_header
from email.utils import getaddresses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.sends import header_text
from mailonce.core.sends.outgoing_mail import Mailbox

# Names that the standard library turns into several addresses, loses the quotes of, or decodes.
HARD_NAMES = [
    "Shop, Inc.",
    "a," * 90,
    "Ann <eve@example.org>",
    'say "hi" \\ bye',
    "=?utf-8?q?evil?=",
    "x=?utf-8?q?evil?=",
    "Müller " * 15,
    "😀" * 50,
    "a" * 190,
    "eve@example.org, Ann",
    "Group: a;",
    "(comment) Ann",
    "日本語テスト" * 20,
]
LINES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cs"]), max_size=120
)


def read_back(header: bytes) -> str:
    value = header.decode().partition(": ")[2].removesuffix("\r\n").replace("\r\n ", " ")
    return str(make_header(decode_header(value)))


def test_a_hard_name_stays_one_address(subtests: pytest.Subtests) -> None:
    for name in HARD_NAMES:
        with subtests.test(name[:20]):
            raw = header_text.mailboxes("To", [Mailbox("ann@example.net", name)])

            value = raw.decode().removeprefix("To: ").replace("\r\n", "")
            ((display, address),) = getaddresses([value])
            assert address == "ann@example.net"
            assert str(make_header(decode_header(display))) == " ".join(name.split())
            assert max(map(len, raw.split(b"\r\n"))) < 998


@given(LINES)
def test_any_line_is_read_back_as_it_was(text: str) -> None:
    raw = header_text.header("Subject", text)

    assert raw.count(b"\r\n") == raw.count(b"\r\n ") + 1 == raw.count(b"\n")
    assert b"\r\n \r\n" not in raw
    assert read_back(raw) == text


def test_long_lines_are_folded_at_spaces() -> None:
    raw = header_text.header("Subject", "word " * 60 + "end")

    assert max(map(len, raw.split(b"\r\n"))) <= 77
    assert read_back(raw) == "word " * 60 + "end"


def test_what_cannot_be_folded_or_would_end_its_line_is_encoded() -> None:
    for value in ("x" * 2_000, "a\r\nBcc: eve@example.org", "a\nb", "a\rb", "a\x00b"):
        raw = header_text.header("X-A", value)

        assert max(map(len, raw.split(b"\r\n"))) < 998
        assert raw.count(b"\n") == raw.count(b"\r\n ") + 1
        assert b"Bcc" not in raw
        assert read_back(raw) == value


def test_a_name_that_is_none_is_a_mistake_of_ours() -> None:
    for name in ("", "X-A: b\r\nY", "X A", "Ä"):
        with pytest.raises(AssertionError, match="no name"):
            header_text.header(name, "b")


@pytest.mark.parametrize(
    ("mailbox", "text"),
    [
        (Mailbox("ann@example.net"), "ann@example.net"),
        (Mailbox("ann@example.net", "Ann Lee"), "Ann Lee <ann@example.net>"),
        (Mailbox("ann@example.net", "Lee, Ann"), '"Lee, Ann" <ann@example.net>'),
        (Mailbox("ann@example.net", 'A "B" \\'), '"A \\"B\\" \\\\" <ann@example.net>'),
        (Mailbox("ann@example.net", "Änne"), '"Änne" <ann@example.net>'),
        (Mailbox("ann@exämple.net", " "), "ann@xn--exmple-cua.net"),
        (Mailbox("änn@exämple.net"), "änn@xn--exmple-cua.net"),
    ],
)
def test_a_mailbox_as_apis_take_it(mailbox: Mailbox, text: str) -> None:
    assert header_text.with_name(mailbox) == text
