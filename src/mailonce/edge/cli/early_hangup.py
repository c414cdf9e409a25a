"""A SIGHUP that comes while the server starts: kept, where it would end the process."""

import signal
from types import FrameType


class EarlyHangup:
    """Remembers that a SIGHUP came since it was made, until the server handles them itself."""

    def __init__(self) -> None:
        self.is_pending = False
        signal.signal(signal.SIGHUP, self._remember)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_pending = True
