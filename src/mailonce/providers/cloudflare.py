"""Cloudflare Email Workers: https://developers.cloudflare.com/email-routing/email-workers/.

Cloudflare posts nothing by itself: the Worker in `examples/cloudflare-worker` posts each mail while
the sender's server waits, and throws where we do not take it. The scheme is ours: hex HMAC-SHA256
over a line with a name, the time, the envelope (percent-encoded) and the SHA-256 of the body. Each
attempt has a time of its own.
"""

from collections.abc import Mapping
from hashlib import sha256

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Refused, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import EventType
from mailonce.core.reading.inbound_event import inbound_event, mail_recipe
from mailonce.core.signatures import hmac_signature
from mailonce.providers.inbound import cloudflare as inbound

SCHEME = "mailonce-mail/1"
TIMESTAMP_HEADER = "x-mailonce-timestamp"
SIGNATURE_HEADER = "x-mailonce-signature"
ENVELOPE_HEADERS = (inbound.MAIL_FROM_HEADER, inbound.RECIPIENT_HEADER)
# What is kept of a header, so that an arrival can be read again.
ENVELOPE_CHARS_MAX = 1_000

NO_ENVELOPE = Refused("no envelope")

MAIL = mail_recipe("cloudflare")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over time, envelope and body against each secret."""
    del keys
    timestamp = arrival.headers.get(TIMESTAMP_HEADER)
    signature = arrival.headers.get(SIGNATURE_HEADER)
    if timestamp is None or signature is None:
        return hmac_signature.MISSING
    fault = hmac_signature.time_fault(timestamp, arrival, source, PROVIDER.freshness_s)
    if fault is not None:
        return fault
    envelope = [arrival.headers.get(name) for name in ENVELOPE_HEADERS]
    if None in envelope or any(len(one or "") > ENVELOPE_CHARS_MAX for one in envelope):
        return NO_ENVELOPE
    # No header has a line break, so the lines can be taken apart in one way only.
    lines = (SCHEME, timestamp, *map(str, envelope), sha256(arrival.body).hexdigest())
    return hmac_signature.verify_hex(
        source, "\n".join(lines).encode("latin-1", "replace"), signature
    )


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Take the body for a mail, whatever it holds."""
    mail = inbound.parse_mail(arrival, source)
    shown = {
        "mail_from": mail.envelope.mail_from,
        "recipients": list(mail.envelope.recipients),
        "bytes": len(arrival.body),
    }
    return Parsed(events=(inbound_event(mail, MAIL, raw=shown),), mails=(mail,))


PROVIDER = Provider(
    name="cloudflare",
    title="Cloudflare Email Workers",
    docs="https://developers.cloudflare.com/email-routing/email-workers/",
    verify=verify,
    parse=parse,
    recipes=(MAIL,),
    needs=("secrets",),
    freshness_s=300,
    retry_horizon_s=5 * 86_400,
    reads_headers=ENVELOPE_HEADERS,
    inbound=inbound.INBOUND,
    types=frozenset({EventType.INBOUND}),
)
