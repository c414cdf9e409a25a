"""The bytes of a mail as DATA brings them, up to the line that holds a dot alone.

Only CR LF ends a line. Servers that also take a bare LF or CR see the end of a mail where others do
not, and whoever writes such bytes into a mail can forge the next one ("SMTP smuggling"). So a bare
CR or LF ends the session before anything of the mail is kept, and `CR LF . CR LF` is the only end.

What is too large or has too long a line is read on to its end, unkept, so that the sender can be
told; how far is bounded as well. Everything else is kept as it came: 8-bit bytes, NULs, headers
that are none. A dot that the sender put in front of a line is taken away again.
"""

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.smtp import replies

_END = b"\r\n.\r\n"
# The end may begin with the line end before the first line.
_BEFORE = b"\r\n"
_TAIL = len(_END) - 1
_CR, _LF = 13, 10


class MailData:
    """Collects one mail; `feed` it until it is complete or hopeless."""

    __slots__ = (
        "_last",
        "_line_bytes",
        "_line_bytes_max",
        "_lines",
        "is_complete",
        "mail_bytes_max",
        "problem",
        "read_bytes",
    )

    def __init__(self, *, mail_bytes_max: int, line_bytes_max: int) -> None:
        self.mail_bytes_max = mail_bytes_max
        self._line_bytes_max = line_bytes_max
        self._lines = bytearray(_BEFORE)
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
        return len(self._lines)

    def feed(self, data: bytes) -> int:
        """Take what came; give how many of its bytes belong to this mail."""
        lines = self._lines
        before = len(lines)
        lines += data
        at = lines.find(_END, max(0, before - _TAIL))
        taken = len(data)
        if at >= 0:
            self.is_complete = True
            taken = at + len(_END) - before
            # The dot may have come before.
            del lines[at + len(_BEFORE) :]
        piece = data if taken == len(data) else data[:taken]
        self.read_bytes += taken
        if self.problem is None:
            self._check(piece)
        if self.problem is not None:
            del lines[:-_TAIL]
        self._last = piece[-1]
        return taken

    def refuse(self, problem: DoorRefusal) -> None:
        """Keep nothing of this mail any more."""
        self.problem = self.problem or problem
        del self._lines[:-_TAIL]

    def take(self) -> bytes:
        """Give the mail, without the dots that the protocol added."""
        assert self.is_complete, "the mail is not complete"
        assert self.problem is None, "the mail was refused"
        lines, self._lines = self._lines, bytearray()
        if b"\r\n." in lines:
            lines = lines.replace(b"\r\n.", b"\r\n")
        return bytes(memoryview(lines)[len(_BEFORE) :])

    def _check(self, piece: bytes) -> None:
        if has_bare_line_end(self._last, piece):
            self.problem = replies.BAD_LINE_END
        elif self._has_long_line(piece):
            self.problem = replies.LONG_LINE
        elif len(self._lines) - len(_BEFORE) > self.mail_bytes_max:
            self.problem = replies.LARGE_MAIL

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


def has_bare_line_end(last: int, piece: bytes) -> bool:
    """Say whether a CR or LF stands alone; `last` is the byte before the piece.

    A CR at the end of the piece is judged with the next one.
    """
    pairs, feeds, returns = piece.count(b"\r\n"), piece.count(b"\n"), piece.count(b"\r")
    if last == _CR:
        if piece[0] != _LF:
            return True
        feeds -= 1
    if piece[-1] == _CR:
        returns -= 1
    return not pairs == feeds == returns
