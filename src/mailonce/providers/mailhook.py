"""Mailhook, which turns mail into webhooks: https://mailhook.co.

It signs its webhooks, but only its customers know how. So this is the configurable HMAC of
`core/signatures/configured_hmac.py` (`header` has no default: we know of none) whose every event is
a mail that came in. The options of `core/reading/mapping.py` say where id and addresses stand.
"""

from functools import partial

from msgspec.structs import replace

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.reading import mapping
from mailonce.core.reading.mail_batch import read_mails
from mailonce.core.signatures import configured_hmac
from mailonce.providers.inbound import mailhook as inbound


def parse(arrival: Arrival, source: Source) -> Parsed:
    delivery_id = configured_hmac.delivery_id(arrival, source.options)
    elements, unreadable = mapping.read_elements(arrival.body, source.options)
    # The id names a delivery, so it can name a mail only where that is the only one.
    mail_id = delivery_id if len(elements) == 1 else None
    parse_mail = partial(inbound.parse_mail, source=source, delivery_id=mail_id)
    batch = read_mails(elements, unreadable, parse_mail)
    events = (mapping.read_event(element, source.options) for element in batch.elements)
    return Parsed(
        events=tuple(map(_inbound, events)),
        mails=batch.mails,
        unreadable=batch.unreadable,
        delivery_id=delivery_id,
    )


def check(source: Source) -> str | None:
    """Name the option that cannot work."""
    return configured_hmac.check(source) or inbound.fault_of(source)


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
    check=check,
    needs=("secrets",),
    freshness_s=configured_hmac.FRESHNESS_S,
    inbound=inbound.INBOUND,
    types=frozenset({EventType.INBOUND}),
    options={
        **configured_hmac.OPTIONS,
        **mapping.LIST_OPTIONS,
        inbound.OPTION: inbound.POINTERS_OPTION,
    },
)
