"""Verify: prove who sent an arrival, over its raw bytes, before anything else looks at it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from mailonce.core import proof
from mailonce.core.arrival import Arrival
from mailonce.core.provider import NeedKey, Provider, Refused, Verdict, Verified
from mailonce.core.seal import UNREADABLE
from mailonce.core.source import Source
from mailonce.errors import UnavailableError

FetchKey = Callable[[str], Awaitable[bytes]]

_T = TypeVar("_T")


class Run(Protocol):
    """Runs a function, here or on a thread."""

    async def __call__(self, look: Callable[[], _T], /) -> _T:
        """Give what it gives."""
        ...


async def _run_here(look: Callable[[], _T], /) -> _T:
    return look()


_NO_KEYS: Mapping[str, bytes] = {}


def verify_now(provider: Provider, source: Source, arrival: Arrival) -> Verdict:
    """Check the source's own proofs, then the provider's signature, as far as no key is needed.

    Raises: UnavailableError where the source's secrets cannot be opened.
    """
    if source.is_unreadable:
        raise UnavailableError(f"this source cannot be verified now: {UNREADABLE}")
    refused = proof.check(source, arrival)
    if refused is not None:
        return refused
    verify_ = provider.verify if source.is_signed else provider.verify_unsigned
    return verify_(arrival, source, _NO_KEYS)


async def verify(
    fetch_key: FetchKey,
    provider: Provider,
    source: Source,
    arrival: Arrival,
    *,
    run: Run = _run_here,
) -> Verified | Refused:
    """Do the same, and fetch the key where one is needed; `run` runs what may take long.

    Raises: UnavailableError where a key cannot be had; not being able to verify is never a
    refusal, because some providers take a refusal for an answer and forget the event.
    """
    verdict = await run(lambda: verify_now(provider, source, arrival))
    if isinstance(verdict, NeedKey):
        keys = {verdict.url: await fetch_key(verdict.url)}
        verdict = await run(lambda: provider.verify(arrival, source, keys))
    if isinstance(verdict, NeedKey):
        return Refused("the key does not fit its URL")
    return verdict
