"""A supervised loop: a background step that a process repeats until it stops.

A step that fails is logged and tried again later; nothing that goes wrong in it ends the loop. An
outage of the database is no fault of a step: it is logged once, until a step succeeds again. (Its
end is not logged: a step may succeed without asking the database.)
"""

import asyncio
from collections.abc import Awaitable, Callable

from mailonce.errors import MailonceError, UnavailableError
from mailonce.telemetry import DATABASE_UNAVAILABLE, UNEXPECTED, log


class Loop:
    """Runs `step`, which returns in how many seconds to run it again; None ends the loop.

    `failed` is the log event of a step that failed, and of an outage where it is given. The step is
    run again after `retry_s`, and where it fails again and again after ever longer, up to
    `retry_s_max`.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[float | None]],
        *,
        retry_s: float,
        retry_s_max: float | None = None,
        failed: str = UNEXPECTED,
    ) -> None:
        self._name = name
        self._step = step
        self._retry_s = retry_s
        self._retry_s_max = retry_s if retry_s_max is None else retry_s_max
        self._failed = failed
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._is_outage = False

    def start(self) -> None:
        """Begin; the first step runs at once."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop, also in the middle of a step."""
        # A step may have swallowed the cancellation, as `asyncio.wait_for` sometimes does.
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        """Run the next step at once, or right after the present one; a failure's wait is kept."""
        self._woken.set()

    async def _run(self) -> None:
        retry_s = self._retry_s
        while not self._stopping:
            self._woken.clear()
            try:
                wait_s = await self._step()
            except Exception as error:  # noqa: BLE001 - the outermost loop
                self._log(error)
                if self._stopping:
                    return
                # Whoever wakes it does not know that it fails: without a pause it would never rest.
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, self._retry_s_max)
                continue
            self._is_outage = False
            if wait_s is None:
                return
            retry_s = self._retry_s
            if not self._stopping:
                await self._rest(wait_s)

    def _log(self, error: Exception) -> None:
        if isinstance(error, UnavailableError):
            if not self._is_outage:
                event = DATABASE_UNAVAILABLE if self._failed == UNEXPECTED else self._failed
                log.warning(event, where=self._name, code=error.code, reason=str(error))
            self._is_outage = True
        elif isinstance(error, MailonceError):
            log.warning(self._failed, where=self._name, code=error.code)
        else:
            name = type(error).__name__
            log.error(self._failed, where=self._name, error=name, exc_info=error)

    async def _rest(self, wait_s: float) -> None:
        # Not `asyncio.wait_for`: woken in the very turn in which it is cancelled, it forgets that
        # it was cancelled, and the loop would never stop.
        timer = asyncio.get_running_loop().call_later(wait_s, self._woken.set)
        await self._woken.wait()
        timer.cancel()
