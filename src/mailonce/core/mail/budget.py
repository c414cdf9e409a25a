"""What reading one mail may cost, what is left of it, and what was wrong so far.

A sender chooses the number of parts, how deep they stand in each other, and how much has to be
searched and decoded. Each of these has a limit that is checked before the work is done, so that the
dearest mail costs about as much as an honest one of the same size.
"""

from dataclasses import dataclass, field

from msgspec import Struct

from mailonce.core.mail.problem import MailProblem


class DigestLimits(Struct, frozen=True, kw_only=True, gc=False):
    """The most that is read of one mail; what goes beyond is left out, and the mail says so."""

    header_bytes_max: int = 256 << 10
    # All header blocks of parts together.
    part_headers_bytes_max: int = 512 << 10
    header_fields_max: int = 1_000
    # Of the fields that are shown with the message.
    shown_headers_chars_max: int = 64 << 10
    addresses_max: int = 1_000
    references_max: int = 100
    parts_max: int = 500
    depth_max: int = 20
    # Bytes looked through for boundaries; nested parts are looked through again.
    scanned_bytes_max: int = 256 << 20
    # Lines that begin like a boundary.
    delimiters_max: int = 5_000
    decoded_bytes_max: int = 64 << 20
    # Of one text or HTML part, and of all of them, before they become characters.
    text_bytes_max: int = 2 << 20
    texts_bytes_max: int = 8 << 20
    text_chars_max: int = 1_000_000
    html_chars_max: int = 2_000_000
    # Of all HTML that has to become text: each tag costs some 15 microseconds.
    html_read_chars_max: int = 500_000
    html_read_tags_max: int = 20_000
    # How often a charset is guessed from the bytes alone.
    guesses_max: int = 3


@dataclass(slots=True)
class DigestBudget:
    """What is left while a mail is read."""

    limits: DigestLimits
    problems: set[MailProblem] = field(default_factory=set)
    parts: int = 0
    _part_headers_bytes: int = 0
    _scanned_bytes: int = 0
    _delimiters: int = 0
    _decoded_bytes: int = 0
    _texts_bytes: int = 0
    _html_chars: int = 0
    _html_tags: int = 0
    _guesses: int = 0

    def note(self, problem: MailProblem) -> None:
        """Keep what was wrong."""
        self.problems.add(problem)

    def take_part(self) -> bool:
        """Say whether one more part may be read."""
        if self.parts >= self.limits.parts_max:
            self.note(MailProblem.TOO_MANY_PARTS)
            return False
        self.parts += 1
        return True

    def take_part_header(self, wanted_bytes: int) -> int:
        """Say how many bytes of a part's header may be read."""
        left = self.limits.part_headers_bytes_max - self._part_headers_bytes
        taken = min(wanted_bytes, left)
        self._part_headers_bytes += taken
        return taken

    def take_scan(self, size_bytes: int) -> bool:
        """Say whether so many bytes may be searched for a boundary."""
        if self._scanned_bytes + size_bytes > self.limits.scanned_bytes_max:
            self.note(MailProblem.TOO_COMPLEX)
            return False
        self._scanned_bytes += size_bytes
        return True

    def take_delimiter(self) -> bool:
        """Say whether one more line that begins like a boundary may be looked at."""
        if self._delimiters >= self.limits.delimiters_max:
            self.note(MailProblem.TOO_COMPLEX)
            return False
        self._delimiters += 1
        return True

    def take_decoded(self, size_bytes: int) -> bool:
        """Say whether so many bytes of content may be decoded."""
        if self._decoded_bytes + size_bytes > self.limits.decoded_bytes_max:
            self.note(MailProblem.TOO_LARGE)
            return False
        self._decoded_bytes += size_bytes
        return True

    def take_text(self, size_bytes: int) -> int:
        """Say how many bytes of a text may become characters."""
        left = self.limits.texts_bytes_max - self._texts_bytes
        taken = min(size_bytes, left, self.limits.text_bytes_max)
        self._texts_bytes += taken
        return taken

    def take_html(self, html: str) -> str:
        """Give as much of some HTML as may still be made into text."""
        shown = cut_html(
            html,
            chars_max=self.limits.html_read_chars_max - self._html_chars,
            tags_max=self.limits.html_read_tags_max - self._html_tags,
        )
        self._html_chars += len(shown)
        self._html_tags += shown.count("<")
        if len(shown) < len(html):
            self.note(MailProblem.TEXT_TRUNCATED)
        return shown

    def take_guess(self) -> bool:
        """Say whether one more charset may be guessed."""
        if self._guesses >= self.limits.guesses_max:
            return False
        self._guesses += 1
        return True


def cut_html(html: str, *, chars_max: int, tags_max: int) -> str:
    """Cut HTML before it has too many characters or tags."""
    html = html[:chars_max]
    if html.count("<") <= tags_max:
        return html
    place = -1
    for _ in range(tags_max + 1):
        place = html.index("<", place + 1)
    return html[:place]
