import pytest

from mailonce.core.mail.reply_text import reply_of

ON = "On Mon, 5 Jan 2026 at 10:00, Ann <ann@example.com> wrote:"


OLD = "From: Ann\nSent: Monday\nTo: Bob\nSubject: x"
FORWARDED = "---------- Forwarded message ---------"


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Yes.\n", "Yes."),
        (f"Yes.\n\n{ON}\n> Shall we?\n> Ann\n", "Yes."),
        (f"{ON}\n> Shall we?\n\nYes.\n", "Yes."),
        (f"Hi,\n\n{ON}\n> One?\n\nYes.\n\n> Two?\n\nNo.\n", "Hi,\n\n\nYes.\n\n\nNo."),
        (f"Yes.\n\n{ON}\n\nShall we?\n", "Yes."),
        ("Yes.\n\nOn Mon, 5 Jan 2026 at 10:00, Ann\n<ann@example.com> wrote:\n\n> A\n", "Yes."),
        ("Yes.\n\n-----Original Message-----\nFrom: Ann\nSent: Monday\n\nShall we?", "Yes."),
        (f"Yes.\n\n________________________________\n{OLD}\n\nShall we?", "Yes."),
        ("Ja.\n\nVon: Ann\nGesendet: Montag\nAn: Bob\nBetreff: x\n\nWollen wir?", "Ja."),
        ("Yes.\n\n-- \nBob\nBob Inc.\n", "Yes."),
        ("Yes.\n\nSent from my iPhone\n", "Yes."),
        (f"Yes.\n\nSent from my iPhone\n\n{ON}\n\n> A\n", "Yes."),
        # What is forwarded is what the mail says.
        (f"See.\n\n{FORWARDED}\n{OLD}\n\nHello", f"See.\n\n{FORWARDED}\n{OLD}\n\nHello"),
        # Words that only look like a quotation.
        ("He said what she wrote:\nnothing.\n", "He said what she wrote:\nnothing."),
        ("From: is a word.\nAnd so on.\n", "From: is a word.\nAnd so on."),
        ("a -- b\n--\nc\n", "a -- b"),
        ("", ""),
        ("> only\n> quoted\n", ""),
    ],
)  # fmt: skip
def test_what_was_written_remains(text: str, reply: str) -> None:
    assert reply_of(text) == reply


def test_a_text_of_many_beginnings_is_bounded() -> None:
    line = "On 1 Jan 2026 " + "x" * 300 + " wrote\n"

    assert reply_of(line * 10_000)
    assert reply_of("a\n" * 50_000).count("\n") == 49_999
