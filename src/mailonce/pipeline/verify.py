"""Verify: prove who sent an arrival, over its raw bytes, before anything else looks at it."""

from collections.abc import Awaitable, Callable, Mapping

from mailonce.core import proof
from mailonce.core.arrival import Arrival
from mailonce.core.provider import NeedKey, Provider, Refused, Verified
from mailonce.core.source import Source

FetchKey = Callable[[str], Awaitable[bytes]]

_NO_KEYS: Mapping[str, bytes] = {}


async def verify(
    fetch_key: FetchKey, provider: Provider, source: Source, arrival: Arrival
) -> Verified | Refused:
    """Check the source's own proofs, then the provider's signature.

    Raises: UnavailableError where a key cannot be had; not being able to verify is never a
    refusal, because some providers take a refusal for an answer and forget the event.
    """
    refused = proof.check(source, arrival)
    if refused is not None:
        return refused
    verdict = provider.verify(arrival, source, _NO_KEYS)
    if isinstance(verdict, NeedKey):
        key = await fetch_key(verdict.url)
        verdict = provider.verify(arrival, source, {verdict.url: key})
    if isinstance(verdict, NeedKey):
        return Refused("the key does not fit its URL")
    return verdict
