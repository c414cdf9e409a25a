"""Acme Mail: an example of a provider outside mailonce's own tree.

Acme posts `{"id": "…", "what": "arrived" | "returned", "mail": "…", "to": "…", "at": 1794000000}`
and signs the raw body: `X-Acme-Signature` is its hex HMAC-SHA256.
"""

from collections.abc import Mapping

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.core.events.key import Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError

TYPES = {"arrived": EventType.DELIVERED, "returned": EventType.BOUNCED}

RECIPE = Recipe(name="acme.event", version=1, identity=("id",), content=("what", "mail", "@to"))


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over the raw bytes, with any of the source's secrets."""
    del keys
    signature = arrival.headers.get("x-acme-signature")
    if signature is None:
        return hmac_signature.MISSING
    matches = (
        hmac_signature.hmac_hex_matches(s.encode(), arrival.body, signature) for s in source.secrets
    )
    return Verified() if any(matches) else hmac_signature.WRONG


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read the one event of a body."""
    del source
    body = json_text.read(arrival.body)
    if not isinstance(body, dict) or not isinstance(body.get("id"), str):
        raise ParseError("an Acme body is an object with an id")
    type_ = TYPES.get(reading.word_of(body.get("what")), EventType.OTHER)
    event = Event(
        type=type_,
        identity=Identity(RECIPE, body),
        message_id=reading.text_of(body.get("mail"), 400) or "",
        recipient=reading.address_of(body.get("to")),
        occurred_ms=reading.epoch_ms_of(body.get("at")),
        bounce=Bounce.HARD if type_ is EventType.BOUNCED else None,
        raw=body,
    )
    return Parsed(events=(event,))


PROVIDER = Provider(
    name="acme",
    title="Acme Mail",
    docs="https://acme.example/webhooks",
    verify=verify,
    parse=parse,
    needs=("secrets",),
    types=frozenset(TYPES.values()),
)
