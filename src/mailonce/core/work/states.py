"""Where a piece of work stands, which of its attempts is meant, and the key that names it."""

from enum import IntEnum
from typing import NewType

# The same on every attempt. Of a delivery it is sha256(identity|route_id), and in hex its
# X-Idempotency-Key.
WorkKey = NewType("WorkKey", bytes)


class State(IntEnum):
    """Where a piece of work stands; it ends as done or dead."""

    DUE = 0
    LEASED = 1
    DONE = 2
    DEAD = 3

    @property
    def public_name(self) -> str:
        """The word that users of the API, the command line and the docs know it by."""
        return _PUBLIC_NAMES[self]


_PUBLIC_NAMES = {
    State.DUE: "pending",
    State.LEASED: "in_progress",
    State.DONE: "delivered",
    State.DEAD: "failed",
}


class AttemptKind(IntEnum):
    """First attempts go before retries, and both before redeliveries."""

    FIRST = 0
    RETRY = 1
    REDELIVERY = 2
