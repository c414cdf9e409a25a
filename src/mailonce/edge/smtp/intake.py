"""What came of one SMTP session, taken piece by piece: lines of commands, and mail.

One command at a time, in the order in which they came: while something is under way for a client
(`BUSY`), what follows waits, and no more is read. A client that sends many commands at once shares
the turns of the event loop with others. Replies of one turn leave in one write.

Bytes count against the limit of all sessions from their arrival until they are handed on.
"""

from abc import abstractmethod
from enum import Enum, auto

from mailonce.edge.connections import ClientConnections, DoorRefusal
from mailonce.edge.smtp import replies
from mailonce.edge.smtp.certificate import ServerCertificate
from mailonce.edge.smtp.channel import ClientChannel
from mailonce.edge.smtp.limits import COMMANDS_PER_TURN, UNKEPT_BYTES_MAX, SmtpLimits
from mailonce.edge.smtp.mail_data import MailData
from mailonce.telemetry import UNEXPECTED, log


class Phase(Enum):
    """What is expected next: a command, the lines of a mail, or an answer of ours."""

    COMMAND = auto()
    DATA = auto()
    BUSY = auto()


# A member of an enum is slow to look up, and each line of a session is asked for its phase.
COMMAND, DATA, BUSY = Phase.COMMAND, Phase.DATA, Phase.BUSY


class Intake(ClientChannel):
    """A connection, up to its commands and mails."""

    def __init__(
        self,
        connections: ClientConnections[SmtpLimits],
        certificate: ServerCertificate | None,
        proxy_peers: tuple[str, ...],
        *,
        begins_with_tls: bool,
    ) -> None:
        super().__init__(connections, certificate, proxy_peers, begins_with_tls=begins_with_tls)
        self.phase: Phase = COMMAND
        # The mail that is being read.
        self.data: MailData | None = None
        # What came, and how far it was taken; what is counted as held for this session.
        self._input = b""
        self._at = self._held = 0
        # After what is under way, the session ends with these words.
        self._last_words: DoorRefusal | None = None
        self._is_half_closed = self._waits_turn = False
        # When the client's turn, or ours, began; when the last bytes came.
        self.since = self.read_at = 0.0

    @abstractmethod
    def hear(self, line: bytes, out: list[bytes]) -> None:
        """Take a command; add the reply to `out`, or become busy."""

    @abstractmethod
    def mail_ended(self, data: MailData, out: list[bytes]) -> None:
        """Take a mail that is complete; add the reply to `out`, or become busy."""

    @property
    @abstractmethod
    def is_stopping(self) -> bool:
        """Whether the door takes no further mail."""

    @property
    def has_more(self) -> bool:
        """Whether something came that was not taken yet."""
        return self._at < len(self._input)

    def received(self, data: bytes) -> None:
        """Take what the client says, as far as it is its turn."""
        self.read_at = self._loop.time()
        self._input = self._input[self._at :] + data if self._input else data
        self._at = 0
        self.go_on([])

    def go_on(self, out: list[bytes]) -> None:
        """Take commands and mail until there is nothing more, or something must be waited for.

        `out` are replies that were not sent yet.
        """
        try:
            self._take(out)
        except Exception as error:  # noqa: BLE001 - an outermost loop: this session ends, no other
            log.error(UNEXPECTED, where="smtp", error=type(error).__name__, exc_info=error)
            self.end(out, replies.BROKEN)
        if self.is_done:
            return
        is_idle = self.phase is COMMAND
        if is_idle and (self._last_words is not None or self.is_stopping):
            self.end(out, self._last_words or replies.STOPPING)
            return
        if out:
            self.write(b"".join(out))
        if is_idle and self._is_half_closed and not (self._waits_turn or self._is_write_paused):
            self._transport.close()
            return
        if self._at == len(self._input):
            self._input, self._at = b"", 0
        self.count_held()
        self.set_reading()

    def _take(self, out: list[bytes]) -> None:
        commands = 0
        while self._at < len(self._input) and not (self.is_done or self._is_write_paused):
            phase = self.phase
            if phase is COMMAND:
                commands += 1
                if commands > COMMANDS_PER_TURN:
                    self._wait_turn()
                    return
                if not self._take_line(out):
                    return
            elif phase is DATA:
                self._take_piece(out)
            else:
                return

    def _wait_turn(self) -> None:
        """Let others be heard first."""
        if not self._waits_turn:
            self._waits_turn = True
            self._all.wait_turn(self._have_turn)

    def _have_turn(self) -> None:
        self._waits_turn = False
        if not self.is_done:
            self.go_on([])

    def resume_writing(self) -> None:
        """Go on when the client has read."""
        super().resume_writing()
        self._wait_turn()

    def _take_line(self, out: list[bytes]) -> bool:
        """Take one command; say whether there was one."""
        begin = self._at
        end = self._input.find(b"\n", begin)
        if (len(self._input) if end < 0 else end) - begin > self.limits.command_bytes_max:
            self.end(out, replies.LONG_COMMAND)
            return False
        if end < 0:
            return False
        if self._input.find(b"\r", begin, end) != end - 1 or end == begin:
            self.end(out, replies.BAD_LINE_END)
            return False
        self._at = end + 1
        self.since = self.read_at
        self.hear(self._input[begin : end - 1], out)
        return True

    def _take_piece(self, out: list[bytes]) -> None:
        data = self.data
        assert data is not None, "lines of a mail follow DATA"
        piece = self._input[self._at :] if self._at else self._input
        self._at += data.feed(piece)
        self.count_held()
        if self.is_done:
            return
        problem = data.problem
        if problem is replies.BAD_LINE_END or (
            problem is not None and data.read_bytes > UNKEPT_BYTES_MAX + data.mail_bytes_max
        ):
            # Where it ends is no longer what its sender thinks, or too far away.
            self.end(out, problem)
        elif data.is_complete:
            self.data = None
            self.phase = COMMAND
            self.since = self.read_at
            self.mail_ended(data, out)

    def hand_on(self, data: MailData) -> int:
        """Leave the bytes of a mail counted; whoever has it now releases as many as this gives."""
        self._held -= data.held_bytes
        return data.held_bytes

    def end(self, out: list[bytes], refusal: DoorRefusal) -> None:
        """Send what is due and why no more is taken, and hang up."""
        self.hang_up(b"".join(out) + replies.written(refusal), refusal)

    def count_held(self) -> None:
        """Count what is held now; keep no more of a mail for which there is no room."""
        data = self.data
        held = len(self._input) - self._at + (0 if data is None else data.held_bytes)
        more, self._held = held - self._held, held
        if not more:
            pass
        elif more < 0:
            self._all.release(-more)
        elif self._all.hold(self, more, self._loop.time()):
            pass
        elif data is not None:
            data.refuse(replies.NO_MEMORY)
            self.count_held()
        elif self.phase is BUSY:
            # What is under way is still answered.
            self._last_words = replies.NO_MEMORY
            self._input, self._at = b"", 0
            self.count_held()
        else:
            self.hang_up(replies.written(replies.NO_MEMORY), replies.NO_MEMORY)

    def let_go(self) -> None:
        """Release what is held, but for a mail that is being stored."""
        self._all.release(self._held)
        self._held = 0
        self._input, self._at, self.data = b"", 0, None

    def wants_bytes(self) -> bool:
        """Say whether more may be read: nothing waits, or a mail is being read."""
        if self._last_words is not None:
            return False
        return not self._input or (self.phase is COMMAND and not self._waits_turn)

    def eof_received(self) -> bool:
        """Answer what is under way for a client that sends no more."""
        is_busy = self.phase is BUSY or self._waits_turn or self._is_write_paused
        self._is_half_closed = is_busy and not self.is_done
        return self._is_half_closed

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn."""
        return self.phase is not BUSY and not self.is_done

    @property
    def waiting_since(self) -> float:
        """When the client's turn began."""
        return self.since

    @property
    def half_read_bytes(self) -> int:
        """How much is held for a client that does not send, or read, what it should."""
        return self._held if self.phase is not BUSY or self._is_write_paused else 0

    def look_at_session(self, now: float) -> None:
        """End a session, or a step of it, that has taken too long."""
        limits, data = self.limits, self.data
        taken_s = now - self.since
        if self.phase is BUSY:
            if taken_s > limits.store_timeout_s:
                self.end([], replies.SLOW_STORE)
        elif data is not None:
            silent_s = now - max(self.since, self.read_at)
            if limits.is_slow(data.read_bytes, taken_s, silent_s=silent_s):
                self.end([], replies.SLOW_DATA)
        elif taken_s > limits.command_timeout_s:
            self.end([], replies.SLOW_COMMAND)
        elif now - self.opened_at > limits.session_timeout_s:
            self.end([], replies.LONG_SESSION)

    @property
    def is_under_way(self) -> bool:
        """Whether a mail is being read or stored, or a recipient looked up."""
        return self.phase is not COMMAND and not self.is_done

    def stop(self, *, at_once: bool) -> None:
        """Stop: a mail under way is finished first, unless at once."""
        if self.in_handshake:
            self.drop()
        elif not self.is_done and (at_once or self.phase is COMMAND):
            self.end([], replies.STOPPING)
