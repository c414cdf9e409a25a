"""The parts of a mail are normalised, without quotes and hidden text, within limits."""

from mailonce.core.extraction.extraction import SearchedPart
from mailonce.core.extraction.mail_texts import (
    PART_CHARS_MAX,
    SUBJECT_CHARS_MAX,
    MailTexts,
    part_texts,
)


def test_parts_come_in_the_order_in_which_they_are_believed() -> None:
    mail = MailTexts(subject="a\nb", text="１\n> 2", html="<p>x<b hidden>y</b></p>")

    parts = part_texts(mail)

    assert [(part.part, part.text.rstrip()) for part in parts] == [
        (SearchedPart.SUBJECT, "a b"),
        (SearchedPart.TEXT, "1"),
        (SearchedPart.HTML, "x"),
    ]


def test_empty_parts_are_left_out() -> None:
    assert part_texts(MailTexts(text=" \n ", html="<p hidden>x</p>")) == ()


def test_long_parts_are_cut_and_it_is_said() -> None:
    mail = MailTexts(subject="1" * 5_000, text="x" * 100_000, html="<p>" + "y" * 100_000)

    subject, text, html = part_texts(mail)

    assert (len(subject.text), len(text.text), len(html.text)) == (
        SUBJECT_CHARS_MAX,
        PART_CHARS_MAX,
        PART_CHARS_MAX,
    )
    assert subject.is_truncated
    assert text.is_truncated
    assert html.is_truncated


def test_characters_that_grow_when_normalised_stay_within_the_limit() -> None:
    (part,) = part_texts(MailTexts(text="\ufdfa" * PART_CHARS_MAX))

    assert len(part.text) <= PART_CHARS_MAX
    assert part.is_truncated
