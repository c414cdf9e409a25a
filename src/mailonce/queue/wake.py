"""Wake-ups: hints that something is due. One that is lost costs a second, never a delivery."""

import asyncio
from collections.abc import Callable, Collection, Iterable

from mailonce.loop import Loop
from mailonce.store.dialects.contract import Database, Signal
from mailonce.telemetry import WAKE_FAILED, log

TELL_EVERY_S = 0.01
REOPEN_S = 1.0
# The loop is woken when there is something to send.
LONG_S = 60.0
# PostgreSQL takes 8,000 bytes; beyond that, every process looks at all its lanes.
TEXT_CHARS_MAX = 7_000
EVERYTHING = "*"
# No route's id: a process that does not know the word wakes nothing.
CONFIGURATION = "!configuration"
# What begins with this names something that changed and that somebody may wait for.
TOPIC = "@"


class Wakes:
    """Wakes this process's worker at once, and those of other processes a little later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wake: Callable[[Iterable[str]], None] = lambda _: None
        self._wake_all: Callable[[], None] = lambda: None
        self._is_ours: Callable[[str], bool] = lambda _: False
        # Called whenever anything is due, and when another process changed the configuration.
        self.on_due: Callable[[], None] = lambda: None
        self.on_configuration: Callable[[], None] = lambda: None
        # Called with what changed, here or in another process; None: with anything.
        self.on_topics: Callable[[Collection[str] | None], None] = lambda _: None
        self._signal: Signal | None = None
        self._far: set[str] = set()
        self._listening = Loop("wake-listen", self._keep_open, retry_s=REOPEN_S, failed=WAKE_FAILED)
        self._telling = Loop("wake-tell", self._tell_soon, retry_s=TELL_EVERY_S, failed=WAKE_FAILED)

    def attach(
        self,
        wake: Callable[[Iterable[str]], None],
        wake_all: Callable[[], None],
        is_ours: Callable[[str], bool],
    ) -> None:
        """Set this process's worker; other processes are not woken for lanes that it holds."""
        self._wake, self._wake_all, self._is_ours = wake, wake_all, is_ours

    def start(self) -> None:
        self._listening.start()
        self._telling.start()

    async def stop(self) -> None:
        """Send what was not sent yet, then disconnect."""
        # The sender first: while the listener stops it could begin to send, and be cut short.
        await self._telling.stop()
        await self._listening.stop()
        if self._signal is not None:
            await self._tell(self._signal)
            await self._signal.close()
            self._signal = None

    def owed(self, routes: Iterable[str]) -> None:
        """Say that something became due for these routes; called after the commit."""
        self._wake(routes)
        self.on_due()
        if self._signal is not None:
            far = [route for route in routes if not self._is_ours(route)]
            if far:
                self._far.update(far)
                self._telling.wake()

    def publish(self, topics: Collection[str]) -> None:
        """Say that these changed, to whoever waits for one; called after the commit."""
        self.on_topics(topics)
        if self._signal is not None:
            self._far.update(TOPIC + topic for topic in topics)
            self._telling.wake()

    def tell_changed(self) -> None:
        """Say that this process has changed the configuration."""
        self._far.add(CONFIGURATION)
        self._telling.wake()

    def owed_everywhere(self) -> None:
        """Say that lanes were given back, so that others take them."""
        self._far.add(EVERYTHING)
        self._telling.wake()

    def _hear(self, text: str) -> None:
        self.on_due()
        words = text.split("\n")
        if CONFIGURATION in words:
            self.on_configuration()
            words.remove(CONFIGURATION)
        topics = [word[1:] for word in words if word.startswith(TOPIC)]
        words = [word for word in words if not word.startswith(TOPIC)]
        if topics or EVERYTHING in words:
            self.on_topics(None if EVERYTHING in words else topics)
        if EVERYTHING in words:
            self._wake_all()
        elif words:
            self._wake(words)

    async def _keep_open(self) -> float | None:
        if self._signal is None or self._signal.is_closed():
            self._signal = await self._database.open_signal(self._hear)
            if self._signal is None:
                return None
            # What was sent while nobody listened is found by the look each second.
            self._wake_all()
        return REOPEN_S

    async def _tell_soon(self) -> float:
        if self._signal is not None:
            await self._tell(self._signal)
        # What becomes due within a moment is sent together.
        await asyncio.sleep(TELL_EVERY_S)
        return LONG_S

    async def _tell(self, signal: Signal) -> None:
        far, self._far = self._far, set()
        if not far:
            return
        if EVERYTHING in far or sum(len(one) + 1 for one in far) > TEXT_CHARS_MAX:
            far &= {CONFIGURATION}
            far.add(EVERYTHING)
        text = "\n".join(sorted(far))
        try:
            await signal.send(text)
        except Exception as error:  # noqa: BLE001 - a hint; whoever needs it looks each second
            log.warning(WAKE_FAILED, error=type(error).__name__)
