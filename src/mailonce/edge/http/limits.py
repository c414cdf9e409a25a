"""What one client, and all of them together, may take of the door."""

from dataclasses import dataclass

# How long whoever was refused may go on sending, unread, so that it hears why. A connection that
# is closed with bytes unread is reset, and the answer is lost on the way.
LINGER_S = 2.0
LINGER_BYTES_MAX = 48 << 20
LINGERING_MAX = 64
# Only what has not moved for so long makes room for others.
STALLED_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorLimits:
    """See the settings of the same names."""

    connections_max: int
    address_connections_max: int
    head_bytes_max: int
    headers_max: int
    body_bytes_max: int
    api_body_bytes_max: int
    held_bytes_max: int
    head_timeout_s: float
    body_timeout_s: float
    body_bytes_per_s_min: int
    idle_timeout_s: float
    answer_timeout_s: float

    def is_slow(self, bytes_read: int, seconds: float, *, silent_s: float) -> bool:
        """Say whether a body takes too long: in silence, or at less than the slowest pace."""
        patience_s = self.body_timeout_s
        return (
            silent_s > patience_s or seconds > patience_s + bytes_read / self.body_bytes_per_s_min
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the door turns somebody away: the status, a word for counting, a sentence."""

    code: int
    reason: str
    detail: str
