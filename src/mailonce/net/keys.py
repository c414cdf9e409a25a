"""Keys that providers publish at a URL: fetched once, kept for a day, then renewed."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mailonce.errors import RefusedError, UnavailableError
from mailonce.net.http import GuardedClient

KEYS_MAX = 64
KEEP_S = 86_400.0
# A key that cannot be renewed counts this much longer: forgeries may keep us from fetching it.
STAND_S = 7 * 86_400.0
FAILURE_KEEP_S = 5.0
FETCHES_MAX = 8
KEY_BYTES_MAX = 64 * 1024
TIMEOUT_S = 5.0
# How a certificate in DER begins.
DER_SEQUENCE = b"0\x82"

_T = TypeVar("_T")


class KeyRing:
    """Fetches keys through the guarded client and remembers them, and failures for a moment.

    Which URL may hold a key is the provider's decision. `monotonic` gives seconds.
    """

    def __init__(self, client: GuardedClient, *, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        # By URL, oldest first; failures are apart, so that they cannot push out good keys.
        self._keys: dict[str, tuple[float, bytes]] = {}
        self._failures: dict[str, tuple[float, str]] = {}
        self._fetches: dict[str, asyncio.Task[bytes]] = {}

    async def get(self, url: str) -> bytes:
        """Give the key at `url`; callers who ask at the same time share one fetch.

        Raises: UnavailableError where it could not be fetched now.
        """
        now = self._monotonic()
        kept = self._keys.get(url)
        if kept is not None and now >= kept[0] + STAND_S:
            kept = None
        if kept is not None and now < kept[0]:
            return kept[1]
        try:
            return await self._fetched(url, now, is_known=kept is not None)
        except UnavailableError:
            if kept is None:
                raise
            return kept[1]

    async def _fetched(self, url: str, now: float, *, is_known: bool) -> bytes:
        failed_until, reason = self._failures.get(url, (now, ""))
        if now < failed_until:
            raise UnavailableError(reason)
        fetch = self._fetches.get(url)
        if fetch is None:
            # Forged messages must not make us fetch keys without end; but a key that
            # was good is none of theirs.
            if len(self._fetches) >= FETCHES_MAX and not is_known:
                raise UnavailableError("too many keys are being fetched at once")
            fetch = self._fetches[url] = asyncio.create_task(self._fetch(url))
            fetch.add_done_callback(lambda done: self._forget(url, done))
        # One caller who hangs up must not take the key from the others.
        return await asyncio.shield(fetch)

    async def close(self) -> None:
        """End what is still being fetched."""
        for fetch in list(self._fetches.values()):
            fetch.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)

    async def _fetch(self, url: str) -> bytes:
        try:
            answer = await self._client.get(url, bytes_max=KEY_BYTES_MAX, timeout_s=TIMEOUT_S)
            fault = _fault_of(url, answer.status, answer.body)
        except (RefusedError, UnavailableError) as error:
            fault = str(error)
        if fault is not None:
            reason = f"a key could not be fetched: {fault}"
            _keep(self._failures, url, (self._monotonic() + FAILURE_KEEP_S, reason))
            raise UnavailableError(reason)
        _keep(self._keys, url, (self._monotonic() + KEEP_S, answer.body))
        return answer.body

    def _forget(self, url: str, done: asyncio.Task[bytes]) -> None:
        self._fetches.pop(url, None)
        # Looked at here, because every caller may have gone by now.
        if not done.cancelled():
            done.exception()


def _fault_of(url: str, status: int, body: bytes) -> str | None:
    """A page in place of a key is an outage: kept as a key it would refuse honest senders."""
    if status != 200:
        return f"status {status}"
    if url.endswith(".pem") and b"-----BEGIN" not in body:
        return "the answer is no PEM file"
    if url.endswith(".crt") and b"-----BEGIN" not in body and not body.startswith(DER_SEQUENCE):
        return "the answer is no certificate"
    return None


def _keep(kept: dict[str, _T], url: str, value: _T) -> None:
    """Add the newest, dropping the oldest above the limit."""
    kept.pop(url, None)
    kept[url] = value
    while len(kept) > KEYS_MAX:
        del kept[next(iter(kept))]
