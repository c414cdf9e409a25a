"""Any sender that signs its bodies with HMAC, as the source's options describe it.

`core/signatures/configured_hmac.py` says how it signs, `core/reading/mapping.py` what its events
mean. `elements` is a JSON pointer to the list of events, where the body is not that list itself.
"""

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.reading import mapping
from mailonce.core.signatures import configured_hmac


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event, or a list of them, as the source's options say."""
    events, unreadable = mapping.read_events(arrival.body, source.options)
    return Parsed(
        events=tuple(events),
        unreadable=tuple(unreadable),
        delivery_id=configured_hmac.delivery_id(arrival, source.options),
    )


PROVIDER = Provider(
    name="hmac",
    title="HMAC, as configured",
    docs="https://datatracker.ietf.org/doc/html/rfc2104",
    verify=configured_hmac.verify,
    parse=parse,
    recipes=(mapping.EVENT, mapping.COMPOSITE),
    event_id="event_id",
    check=configured_hmac.check,
    needs=("secrets",),
    freshness_s=configured_hmac.FRESHNESS_S,
    options={**configured_hmac.OPTIONS, **mapping.LIST_OPTIONS},
)
