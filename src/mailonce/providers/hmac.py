"""Any sender that signs its bodies with HMAC, as the source's options describe it.

`core/signatures/configured_hmac.py` says how it signs, `core/reading/mapping.py` what its events
mean. `elements` is a JSON pointer to the list of events, where the body is not that list itself.
"""

from collections.abc import Mapping

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.reading import mapping
from mailonce.core.signatures import configured_hmac


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature against each of the source's secrets."""
    del keys
    window_s = PROVIDER.freshness_s if source.freshness_s is None else source.freshness_s
    return configured_hmac.verify(arrival, source, window_s=window_s)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event, or a list of them, as the source's options say."""
    events, unreadable = mapping.read_events(arrival.body, source.options)
    return Parsed(
        events=tuple(events),
        unreadable=tuple(unreadable),
        delivery_id=configured_hmac.delivery_id(arrival, source.options),
    )


def check(source: Source) -> str | None:
    """Name the option that is missing or unknown."""
    return configured_hmac.fault_of_source(source) or mapping.fault_of(source.options)


PROVIDER = Provider(
    name="hmac",
    title="HMAC, as configured",
    docs="https://datatracker.ietf.org/doc/html/rfc2104",
    verify=verify,
    parse=parse,
    recipes=(mapping.EVENT, mapping.COMPOSITE),
    event_id="event_id",
    check=check,
    needs=("secrets",),
    # Counts only where the template has a timestamp.
    freshness_s=300,
)
