"""SIGTERM and SIGINT: end what is under way, then stop."""

import asyncio
import signal
from collections.abc import Callable

import uvicorn


class StopSignals:
    """Stop at the first signal; at the second, without waiting for requests under way.

    They are handled from the moment the server can be reached: who reads the greeting may stop it
    at once, before its doors are open. Until then a signal ends the process as it ends any other.
    """

    def __init__(self, closing: list[Callable[[], None]]) -> None:
        # These end requests that only wait for an event, and sessions of other doors.
        self.closing = closing
        self._servers: list[uvicorn.Server] = []
        self._is_stopping = False
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)

    def also_stop(self, servers: list[uvicorn.Server]) -> None:
        """Stop `servers` as well, at once where a signal came before them."""
        self._servers.extend(servers)
        for server in servers:
            server.should_exit = self._is_stopping

    def stop(self) -> None:
        self._is_stopping = True
        for close in self.closing:
            close()
        for server in self._servers:
            server.force_exit = server.should_exit
            server.should_exit = True
