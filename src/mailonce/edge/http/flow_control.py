"""Flow control of a connection: it is not read while something waits, and large pieces in turns."""

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.flow_control import FlowControl


class Flow(FlowControl):
    """Pauses reading for as long as there is a reason to."""

    def __init__(
        self,
        transport: asyncio.Transport,
        may_read: Callable[[], bool],
        wait_turn: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(transport)
        self._may_read = may_read
        self._wait_turn = wait_turn
        self._breathes = False

    def breathe(self) -> None:
        """Let others be read first; a fast sender would otherwise be read for megabytes."""
        if not self._breathes:
            self._breathes = True
            self.pause_reading()
            self._wait_turn(self._breathe_out)

    def _breathe_out(self) -> None:
        self._breathes = False
        self.resume_reading()

    def resume_reading(self) -> None:
        """Read on, if it is time to."""
        is_ready = self.read_paused and not self._breathes and not self._transport.is_closing()
        if is_ready and self._may_read():
            super().resume_reading()
