"""Any sender that follows https://www.standardwebhooks.com, under its own or Svix's header names.

What its events mean is said by the source's options (see `core/reading/mapping.py`). The message id
of the headers is the event's id.
"""

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.reading import mapping
from mailonce.core.signatures import standard_webhooks


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read the one event of the body, as the source's options say."""
    body = json_text.read_object(arrival.body, "a Standard Webhooks body")
    event_id = standard_webhooks.message_id_of(arrival)
    event = mapping.read_event(body, source.options, event_id=event_id)
    return Parsed(events=(event,), delivery_id=event_id)


def check(source: Source) -> str | None:
    """Name the key or option that could never work."""
    if source.is_signed and not source.secrets and not source.public_keys:
        return "Standard Webhooks needs 'secret' (whsec_…) or 'public_key' (whpk_…)"
    return standard_webhooks.fault_of(source) or mapping.fault_of(source.options)


PROVIDER = Provider(
    name="standardwebhooks",
    title="Standard Webhooks",
    docs="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
    verify=standard_webhooks.verify,
    parse=parse,
    recipes=(mapping.EVENT, mapping.COMPOSITE),
    event_id="webhook-id",
    check=check,
    # Or public keys alone: `check` knows.
    needs=("secrets",),
    freshness_s=standard_webhooks.FRESHNESS_S,
    # The schedule that the specification gives as its example ends after 75 hours and a half.
    retry_horizon_s=76 * 3600,
    reads_headers=standard_webhooks.HEADERS,
    options={**standard_webhooks.OPTIONS, **mapping.OPTIONS},
)
