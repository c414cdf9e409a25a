"""The bytes of a mail as DATA brings them, up to the line that holds a dot alone.

Only CR LF ends a line. Servers that also take a bare LF or CR see the end of a mail where others do
not, and whoever writes such bytes into a mail can forge the next one ("SMTP smuggling"). So a bare
CR or LF ends the session before anything of the mail is kept, and `CR LF . CR LF` is the only end.

What is too large or has too long a line is read on to its end, unkept, so that the sender can be
told; how far is bounded as well. Everything else is kept as it came: 8-bit bytes, NULs, headers
that are none. A dot that the sender put in front of a line is taken away again.
"""

import re

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies

_END = b"\r\n.\r\n"
_DOT_LINE = b"\r\n."
# Faster than counting the pairs, and every byte of every mail is looked at: by the first, once for
# both things that it finds.
_find_dot_or_bare_return = re.compile(rb"\r(?:\n\.|[^\n])").search
_find_bare_return = re.compile(rb"\r[^\n]").search
_LINE_END = b"\r\n"
# So many last bytes may begin the end.
_TAIL_BYTES = len(_END) - 1
_CR, _LF = 13, 10


class MailData:
    """Collects one mail; `feed` it until it is complete or hopeless."""

    __slots__ = (
        "_before",
        "_last",
        "_line_bytes",
        "_line_bytes_max",
        "_lines",
        "_tail",
        "is_complete",
        "mail_bytes_max",
        "problem",
        "read_bytes",
    )

    def __init__(self, *, mail_bytes_max: int, line_bytes_max: int) -> None:
        self.mail_bytes_max = mail_bytes_max
        self._line_bytes_max = line_bytes_max
        # What is certainly the mail's, without added dots; what came after it, and the two bytes
        # before that. A line end stands before the first line.
        self._lines = bytearray()
        self._tail = _LINE_END
        self._before = b""
        self._last = _LF
        # The length of the line that is not complete yet.
        self._line_bytes = 0
        self.read_bytes = 0
        self.is_complete = False
        # Why the mail is refused; it is kept no longer.
        self.problem: DoorRefusal | None = None

    @property
    def held_bytes(self) -> int:
        """How much is kept so far."""
        return len(self._lines) + len(self._tail)

    def feed(self, data: bytes) -> int:
        """Take what came; give how many of its bytes belong to this mail."""
        tail_bytes = len(self._tail)
        text = self._tail + data
        # Most mails have one line that begins with a dot, their end, and no bare CR before it.
        odd = _find_dot_or_bare_return(text)
        clean_bytes = len(text) if odd is None else odd.start()
        dotted = text.find(_DOT_LINE, clean_bytes)
        at = text.find(_END, dotted) if dotted >= 0 else -1
        taken, certain = len(data), max(0, len(text) - _TAIL_BYTES)
        if at >= 0:
            self.is_complete = True
            taken, certain = at + len(_END) - tail_bytes, at + len(_LINE_END)
        piece = data if taken == len(data) else data[:taken]
        self.read_bytes += taken
        if self.problem is None:
            has_dots = 0 <= dotted <= certain - len(_DOT_LINE)
            self._keep(text[:certain], has_dots=has_dots)
            self._check(piece, clean_bytes=max(0, clean_bytes - tail_bytes))
        self._tail = b"" if self.is_complete else text[certain:]
        self._last = piece[-1]
        return taken

    def refuse(self, problem: DoorRefusal) -> None:
        """Keep nothing of this mail any more."""
        self.problem = problem
        self._lines = bytearray()

    def take(self) -> bytes:
        """Give the mail, without the dots that the protocol added."""
        assert self.is_complete, "the mail is not complete"
        assert self.problem is None, "the mail was refused"
        lines, self._lines = self._lines, bytearray()
        return bytes(memoryview(lines)[len(_LINE_END) :])

    def _keep(self, text: bytes, *, has_dots: bool) -> None:
        """Add text of the mail, without the dot that was put before each line with one.

        Done piece by piece: in one go, it would hold up all others for as long as a mail is large.
        """
        before = len(self._before)
        text = self._before + text
        self._before = text[-len(_LINE_END) :]
        # A line end and its dot may have come in two pieces.
        if has_dots or _DOT_LINE in text[: before + len(_DOT_LINE) - 1]:
            text = text.replace(_DOT_LINE, _LINE_END)
        self._lines += memoryview(text)[before:]

    def _check(self, piece: bytes, *, clean_bytes: int) -> None:
        if has_bare_line_end(self._last, piece, clean_bytes=clean_bytes):
            self.refuse(replies.BAD_LINE_END)
        elif self._has_long_line(piece):
            self.refuse(replies.LONG_LINE)
        elif len(self._lines) - len(_LINE_END) > self.mail_bytes_max:
            self.refuse(replies.LARGE_MAIL)

    def _has_long_line(self, piece: bytes) -> bool:
        most, size = self._line_bytes_max, len(piece)
        # Where the line begins, counted from the piece; it may have begun before.
        begin = -self._line_bytes
        while size - begin > most:
            end = piece.rfind(b"\n", max(begin, 0), max(begin + most, 0))
            if end < 0:
                return True
            begin = end + 1
        last = piece.rfind(b"\n")
        self._line_bytes = size - (begin if last < 0 else last + 1)
        return False


def has_bare_line_end(last: int, piece: bytes, *, clean_bytes: int = 0) -> bool:
    """Say whether a CR or LF stands alone; `last` is the byte before the piece.

    A CR at the end of the piece is judged with the next one. None of the `clean_bytes` first is a
    bare CR.
    """
    if _find_bare_return(piece, clean_bytes) is not None:
        return True
    # Each CR stands before an LF, so as many LFs stand behind a CR.
    feeds, returns = piece.count(b"\n"), piece.count(b"\r")
    if last == _CR:
        if piece[0] != _LF:
            return True
        feeds -= 1
    if piece[-1] == _CR:
        returns -= 1
    return feeds != returns
