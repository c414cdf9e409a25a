import struct

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail.mime.tnef import read_tnef
from mailonce.core.mail.problem import MailProblem
from tests.core.mail.mails import make_budget


def attribute(level: int, name: int, content: bytes) -> bytes:
    return (
        struct.pack("<BLL", level, name, len(content))
        + content
        + struct.pack("<H", sum(content) & 0xFFFF)
    )


def text_property(name: int, text: str) -> bytes:
    content = text.encode("utf-16-le") + b"\0\0"
    return struct.pack("<HHLL", 0x1F, name, 1, len(content)) + content + b"\0" * (-len(content) % 4)


def properties(*values: bytes) -> bytes:
    return struct.pack("<L", len(values)) + b"".join(values)


def make_tnef(*attributes: bytes) -> bytes:
    return struct.pack("<LH", 0x223E9F78, 1) + b"".join(attributes)


def make_attachment(name: str, content: bytes) -> bytes:
    return (
        attribute(2, 0x00069002, b"\0" * 14)
        + attribute(2, 0x00018010, b"SHORT~1.PDF\0")
        + attribute(2, 0x0006800F, content)
        + attribute(2, 0x00069005, properties(text_property(0x3707, name)))
    )


def test_attachments_and_text_are_taken_out() -> None:
    numbers = struct.pack("<HHL", 0x0003, 0x0E07, 1)
    message = properties(numbers, text_property(0x1000, "Grüße"))

    found = read_tnef(
        make_tnef(
            attribute(1, 0x00069003, message),
            make_attachment("Quartal März.pdf", b"%PDF-1"),
            make_attachment("two.txt", b"two"),
        ),
        make_budget(),
    )

    assert found is not None
    assert found.text == "Grüße"
    assert [(one.name, one.content) for one in found.attachments] == [
        ("Quartal März.pdf", b"%PDF-1"),
        ("two.txt", b"two"),
    ]


def test_a_title_stands_in_for_a_long_name() -> None:
    found = read_tnef(
        make_tnef(
            attribute(1, 0x00069007, struct.pack("<LL", 1252, 0)),
            attribute(1, 0x0002800C, b"Gr\xfc\xdfe\0"),
            attribute(2, 0x00069002, b"\0" * 14),
            attribute(2, 0x00018010, b"M\xe4rz.txt\0"),
            attribute(2, 0x0006800F, b"x"),
        ),
        make_budget(),
    )

    assert found is not None
    assert (found.text, found.attachments[0].name) == ("Grüße", "März.txt")


def test_other_bytes_are_named() -> None:
    budget = make_budget()

    assert read_tnef(b"not winmail.dat", budget) is None
    assert budget.problems == {MailProblem.BAD_TNEF}


@given(st.data())
def test_broken_bytes_are_never_an_error(data: st.DataObject) -> None:
    whole = make_tnef(
        attribute(1, 0x00069003, properties(text_property(0x1000, "x"))),
        make_attachment("a", b"content"),
    )
    at = data.draw(st.integers(0, len(whole)))
    noise = data.draw(st.binary(max_size=20))
    cut = data.draw(st.integers(0, 30))

    found = read_tnef(whole[:at] + noise + whole[at + cut :], make_budget())

    assert found is None or sum(len(one.content) for one in found.attachments) <= len(whole) + 20
