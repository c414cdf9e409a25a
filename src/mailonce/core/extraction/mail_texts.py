"""The texts of a mail that are searched, made comparable: subject, text and visible HTML."""

from dataclasses import dataclass

from mailonce.core.extraction.extraction import SearchedPart
from mailonce.core.extraction.normalise import normalise
from mailonce.core.extraction.quoted_text import blank_quotes
from mailonce.core.mail.invisible_characters import remove_invisible, remove_reversed
from mailonce.core.mail.visible_text import VisibleText, read_visible_text

SUBJECT_CHARS_MAX = 1_000
PART_CHARS_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTexts:
    """What a mail says; all that extraction needs to know of it."""

    subject: str = ""
    text: str = ""
    html: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartText:
    """A part without what it quotes, normalised: one character for each that is searched."""

    part: SearchedPart
    text: str
    is_truncated: bool = False


def part_texts(mail: MailTexts, visible: VisibleText | None = None) -> tuple[PartText, ...]:
    """Give the parts that have any text, in the order in which they are believed."""
    if visible is None:
        visible = read_visible_text(mail.html, chars_max=PART_CHARS_MAX)
    parts = (
        _part(SearchedPart.SUBJECT, mail.subject.replace("\n", " "), SUBJECT_CHARS_MAX),
        _part(SearchedPart.TEXT, mail.text, PART_CHARS_MAX),
        _part(SearchedPart.HTML, visible.text, PART_CHARS_MAX, is_truncated=visible.is_truncated),
    )
    return tuple(part for part in parts if part.text.strip())


def _part(part: SearchedPart, raw: str, chars_max: int, *, is_truncated: bool = False) -> PartText:
    text = remove_invisible(remove_reversed(raw[:chars_max]))
    if part is not SearchedPart.SUBJECT:
        text = blank_quotes(text)
    text = normalise(text)
    is_truncated = is_truncated or len(raw) > chars_max or len(text) > chars_max
    return PartText(part=part, text=text[:chars_max], is_truncated=is_truncated)
