"""A signature and its time in one header: `t=…, kid=…, v1=…`, as MailWebhook writes it.

`v1` is the base64 HMAC-SHA256 over `{t}.` and the raw body. `kid` says which secret it was, and is
not signed: trying all of them finds no other.
"""

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.empty_secret import is_empty
from mailonce.core.signatures import hmac_signature


def verify(arrival: Arrival, source: Source, *, header: str, window_s: int | None) -> Verdict:
    """Check the signature against each of the source's secrets."""
    given = arrival.headers.get(header)
    items = [item.strip().partition("=") for item in (given or "").split(",")]
    fields = {name: value for name, _, value in items}
    if "t" not in fields or "v1" not in fields:
        return hmac_signature.MISSING
    if len(fields) != len(items):
        # A repeated field is ambiguous: another reader might take the other value.
        return hmac_signature.WRONG
    timestamp = fields["t"]
    fault = hmac_signature.time_fault(timestamp, arrival, source, window_s)
    if fault is not None:
        return fault
    signed = timestamp.encode() + b"." + arrival.body
    if any(
        hmac_signature.hmac_base64_matches(secret.encode(), signed, fields["v1"])
        for secret in source.secrets
        # The gate asks here as well, with secrets of its own.
        if not is_empty(secret)
    ):
        return Verified()
    return hmac_signature.WRONG
