"""Limits of the SMTP door: for one client, and for all of them together."""

from collections import Counter
from dataclasses import dataclass

MINUTE_S = 60.0
# Addresses whose rates are counted at once; where there are more, counting starts again.
ADDRESSES_MAX = 100_000
# How much of a mail that is refused already is still read, so that its sender gets the reply.
UNKEPT_BYTES_MAX = 64 << 20
# Likewise of a client that is hung up on.
LINGER_S = 2.0
LINGER_BYTES_MAX = 48 << 20
# A client that has sent so much is read on after the others.
TURN_BYTES_MAX = 64 << 10
# Clients that send many commands at once share the turns of the event loop.
COMMANDS_PER_TURN = 32
# Of replies that clients do not read, over all sessions.
UNREAD_BYTES_MAX = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpLimits:
    """See the settings of the same names."""

    connections_max: int
    address_connections_max: int
    address_connects_per_minute_max: int
    address_mails_per_minute_max: int
    address_wrong_logins_per_minute_max: int
    held_bytes_max: int
    message_bytes_max: int
    command_bytes_max: int
    data_line_bytes_max: int
    handshake_timeout_s: float
    command_timeout_s: float
    data_timeout_s: float
    data_bytes_per_s_min: int
    store_timeout_s: float
    answer_timeout_s: float
    session_timeout_s: float

    @property
    def unread_bytes_max(self) -> int:
        """Replies are short: nobody needs to set it."""
        return UNREAD_BYTES_MAX

    def is_slow(self, read_bytes: int, seconds: float, *, silent_s: float) -> bool:
        """Say whether a mail takes too long: in silence, in all, or at less than the pace."""
        patience_s = self.data_timeout_s
        return (
            silent_s > patience_s
            or seconds > self.session_timeout_s
            or seconds > patience_s + read_bytes / self.data_bytes_per_s_min
        )


class Rate:
    """Counts what each address does within a minute; None is an address without a limit."""

    def __init__(self, per_minute_max: int) -> None:
        self._most = per_minute_max
        self._counts: Counter[str] = Counter()
        self._until = 0.0

    def exceeds(self, address: str | None, now: float) -> bool:
        """Count one more; say whether that is too many."""
        if address is None:
            return False
        if now >= self._until or len(self._counts) >= ADDRESSES_MAX:
            self._counts.clear()
            self._until = now + MINUTE_S
        self._counts[address] += 1
        return self._counts[address] > self._most

    def has_room(self, address: str | None, now: float) -> bool:
        """Say whether one more would not be too many, without counting it."""
        if address is None or now >= self._until:
            return True
        return self._counts[address] < self._most
