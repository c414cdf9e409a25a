"""The workers of all processes: which are alive, and how lanes and leases of dead ones are freed.

A worker has a presence, a connection that ends with its process, and writes now and then that it
lives. A worker that sees another one without its presence twice, a moment apart, ends its leases
and frees its lanes. A presence can break while its worker lives: then it is opened again at once,
and until it is there the worker has none in writing, so only a long silence shows that it is gone.
A worker is written down only once its first presence was tried: of one without, nobody could see
that it was killed.

One that lost its own presence (the database was restarted, or another server took its place) does
not judge others until they had time to come back. A worker also asks the database whether its own
is seen, because a connection to a server that vanished looks alive for a while. Should a living
worker be taken for gone all the same, its leases are fenced: a result of it changes nothing, and
the delivery is sent once more.
"""

import asyncio
from dataclasses import dataclass

from mailonce.clock import Clock
from mailonce.errors import MailonceError
from mailonce.loop import Loop
from mailonce.store.dialects.contract import Lanes, Presence
from mailonce.telemetry import WORKER_GONE, WORKER_STALLED, log

SUSPECT_S = 0.7
REOPEN_S, REOPEN_S_MAX = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class CrewView:
    """The other workers as one sees them; each of `gone` left leases that nobody will end."""

    gone: tuple[bytes, ...] = ()
    # How many lanes each living worker holds.
    lanes: tuple[int, ...] = ()
    # A worker may be gone; look again soon.
    suspects: bool = False


class Crew:
    """One worker's view of all workers."""

    def __init__(self, lanes: Lanes, clock: Clock, owner: bytes, *, hold_s: float) -> None:
        self._lanes = lanes
        self._clock = clock
        self._owner = owner
        self._hold_s = hold_s
        self._presence: Presence | None = None
        # Set once a presence was opened or refused; a crew that was not started opens none.
        self._tried = asyncio.Event()
        self._tried.set()
        self._lost = asyncio.Event()
        # Of two writings at once the later one must win.
        self._attending = asyncio.Lock()
        self._unseen: asyncio.Task[None] | None = None
        self._attend_s = 0.0
        self._judges_from_s = 0.0
        # When each suspect was first seen without its presence.
        self._suspects: dict[bytes, float] = {}
        self._loop = Loop(
            "presence", self._keep_present,
            retry_s=REOPEN_S, retry_s_max=REOPEN_S_MAX, failed=WORKER_STALLED,
        )  # fmt: skip

    def start(self) -> None:
        self._tried.clear()
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
        if self._unseen is not None:
            self._unseen.cancel()
            await asyncio.gather(self._unseen, return_exceptions=True)
        if self._presence is not None:
            await self._presence.close()

    async def look(self) -> CrewView:
        """Report that we are alive, and list the others."""
        await self._tried.wait()
        now_s = self._clock.monotonic()
        if now_s >= self._attend_s:
            await self._attend()
            self._attend_s = now_s + self._hold_s / 2
        presence = self._presence
        workers = await self._lanes.crew()
        if any(one.owner == self._owner and one.is_gone for one in workers):
            self._judges_from_s = now_s + self._hold_s
            if presence is not None and presence is self._presence:
                await presence.close()
        crew = [one for one in workers if one.owner != self._owner]
        if now_s < self._judges_from_s:
            return CrewView(lanes=tuple(one.lanes for one in crew if one.is_present))
        self._suspects = {
            one.owner: self._suspects.get(one.owner, now_s) for one in crew if one.is_gone
        }
        gone = tuple(
            owner for owner, since_s in self._suspects.items() if now_s - since_s >= SUSPECT_S
        )
        lanes = tuple(one.lanes for one in crew if one.is_present and not one.is_gone)
        return CrewView(gone, lanes, suspects=len(self._suspects) > len(gone))

    async def take_over(self, owner: bytes) -> None:
        """Free the lanes of a worker that is gone, after its leases were ended."""
        await self._lanes.let_go(owner)
        self._suspects.pop(owner, None)
        log.warning(WORKER_GONE, worker=owner.hex())

    async def _attend(self) -> None:
        """Write that we live, with the presence that we have by then, or without."""
        hold_ms = int(self._hold_s * 1000)
        async with self._attending:
            session = None if self._presence is None else self._presence.session
            await self._lanes.attend(self._owner, session=session, hold_ms=hold_ms)

    async def _attend_quietly(self) -> None:
        """Write that we live; else the next look does, or says why."""
        try:
            await self._attend()
        except MailonceError:
            self._attend_s = 0.0

    async def _keep_present(self) -> float | None:
        """Hold a presence until it is lost; the loop then opens the next one."""
        self._lost.clear()
        try:
            self._presence = await self._lanes.open_presence(self._owner, self._lost.set)
        except MailonceError:
            if self._unseen is not None and self._unseen.done():
                self._write_unseen()
            raise
        finally:
            self._tried.set()
        if self._presence is None:
            return None
        if self._unseen is not None:
            await asyncio.wait([self._unseen])
        # At once: until the session is written down, only time tells that we are gone.
        await self._attend_quietly()
        await self._lost.wait()
        self._presence = None
        self._write_unseen()
        self._judges_from_s = self._clock.monotonic() + self._hold_s
        return 0.0

    def _write_unseen(self) -> None:
        self._unseen = asyncio.create_task(self._attend_quietly(), name="unseen")
