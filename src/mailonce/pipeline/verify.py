"""Verify: prove who sent an arrival, over its raw bytes, before anything else looks at it."""

from collections.abc import Mapping

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import NeedKey, Provider, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.signatures import proof, refusal
from mailonce.core.signatures.sealing import UNREADABLE
from mailonce.errors import UnavailableError

SWITCHED_OFF = Refused(refusal.SWITCHED_OFF)
EMPTY_SECRET = Refused(refusal.EMPTY_SECRET)
KEY_DOES_NOT_FIT = Refused("the key does not fit its URL")
_NO_KEYS: Mapping[str, bytes] = {}


def verify_now(provider: Provider, source: Source, arrival: Arrival) -> Verdict:
    """Check the source's own proofs, then the provider's signature, as far as no key is needed.

    Raises: UnavailableError where the source's secrets cannot be opened.
    """
    if source.off is not None:
        return SWITCHED_OFF
    if source.is_unreadable:
        raise UnavailableError(f"this source cannot be verified now: {UNREADABLE}")
    if source.empty_setting is not None:
        # One that was stored before empty ones were refused.
        usable = source.without_empty()
        if usable is None:
            return EMPTY_SECRET
        source = usable
    refused = proof.check(source, arrival)
    if refused is not None:
        return refused
    verify = provider.verify if source.is_signed else provider.verify_unsigned
    return verify(arrival, source, _NO_KEYS)


def verify_with(
    provider: Provider, source: Source, arrival: Arrival, keys: Mapping[str, bytes]
) -> Verified | Refused:
    """Check the provider's signature with the key that it asked for, by its URL.

    A key that cannot be had is no refusal: some providers take that for an answer and forget the
    event. The fetch raises UnavailableError instead.
    """
    verdict = provider.verify(arrival, source, keys)
    return KEY_DOES_NOT_FIT if isinstance(verdict, NeedKey) else verdict
