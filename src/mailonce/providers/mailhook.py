"""Mailhook, which turns mail into webhooks: https://mailhook.co.

It signs its webhooks, but how is told only to its customers. So this is the configurable HMAC of
`core/signatures/configured_hmac.py` (`header` has no default: we know of none) whose every event is
a mail that came in. The options of `core/reading/mapping.py` say where id and addresses stand.
"""

from msgspec.structs import replace

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.reading import mapping
from mailonce.core.signatures import configured_hmac


def parse(arrival: Arrival, source: Source) -> Parsed:
    events, unreadable = mapping.read_events(arrival.body, source.options)
    return Parsed(
        events=tuple(map(_inbound, events)),
        unreadable=tuple(unreadable),
        delivery_id=configured_hmac.delivery_id(arrival, source.options),
    )


def _inbound(event: Event) -> Event:
    """Whatever it is called, a mail that came in must not pass for the fate of one we sent."""
    return replace(event, type=EventType.INBOUND, bounce=None, reject=None)


PROVIDER = Provider(
    name="mailhook",
    title="Mailhook",
    docs="https://mailhook.co",
    verify=configured_hmac.verify,
    parse=parse,
    recipes=(mapping.EVENT, mapping.COMPOSITE),
    event_id="event_id",
    check=configured_hmac.check,
    needs=("secrets",),
    freshness_s=configured_hmac.FRESHNESS_S,
    types=frozenset({EventType.INBOUND}),
)
