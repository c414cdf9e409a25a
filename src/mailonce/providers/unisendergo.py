"""Unisender Go: https://godocs.unisender.ru/web-api-ref#callback-format.

The proof is the body's own field `auth`: the MD5 of the raw body in which its value is replaced by
the API key, or by the project's key where the webhook belongs to a project. MD5 is weak; a token
or basic auth beside it is worth the trouble. Activating a webhook asks for its URL with GET.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from hashlib import md5
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Probe, Provider, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Classification, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError

STATUS = "transactional_email_status"

TYPES = {
    "sent": EventType.SENT,
    "delivered": EventType.DELIVERED,
    "opened": EventType.OPENED,
    "clicked": EventType.CLICKED,
    "unsubscribed": EventType.UNSUBSCRIBED,
    "subscribed": EventType.SUBSCRIBED,
    "spam": EventType.COMPLAINED,
    # Unisender goes on trying.
    "soft_bounced": EventType.DEFERRED,
    "hard_bounced": EventType.BOUNCED,
}
# "Hard" means that Unisender gave up; what it says about the address, only this word does.
BOUNCES = {
    "err_user_unknown": Bounce.HARD,
    "err_user_inactive": Bounce.HARD,
    "err_domain_inactive": Bounce.HARD,
    "err_mailbox_discarded": Bounce.HARD,
    "err_destination_misconfigured": Bounce.HARD,
    "err_mailbox_full": Bounce.SOFT,
    "err_too_large": Bounce.SOFT,
    "err_unreachable": Bounce.SOFT,
    "err_delivery_failed": Bounce.SOFT,
    "err_lost": Bounce.SOFT,
    "err_skip_letter": Bounce.SOFT,
    "err_spam_rejected": Bounce.BLOCKED,
    "err_blacklisted": Bounce.BLOCKED,
    "err_spam_skipped": Bounce.BLOCKED,
}

# There is no id: the header `ID` is new with each attempt, and a retry may come in another batch.
EVENT = Recipe(
    name="unisendergo.event",
    version=1,
    identity=(
        "event_name",
        "job_id",
        "@email",
        "status",
        "event_time",
        "url",
        "delivery_status",
        "ip",
        "user_agent",
    ),
    content=("destination_response",),
)

# A hundred events fit well; a few bytes of gzip can claim to be gigabytes.
INFLATED_BYTES_MAX = 4 << 20
GZIP = b"\x1f\x8b"
ENCODING_HEADER = "content-encoding"

_AUTH = re.compile(r"[0-9a-f]{32}")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Put each key where the digest stands, in the bytes as they came, and compare."""
    del keys
    try:
        plain = _inflated(arrival)
        auth = json_text.read_fields(plain, ("auth",)).get("auth")
    except ParseError:
        return hmac_signature.MISSING
    if auth is None:
        return hmac_signature.MISSING
    # Once only: with two places, what was replaced need not be what was read.
    if not isinstance(auth, str) or not _AUTH.fullmatch(auth) or plain.count(auth.encode()) != 1:
        return hmac_signature.WRONG
    if any(
        hmac_signature.same_text(_digest(plain, auth, secret), auth) for secret in source.secrets
    ):
        return Verified()
    return hmac_signature.WRONG


def probe(arrival: Arrival, source: Source) -> Probe | None:
    """Answer the activation of a webhook; events come by POST only."""
    del source
    return Probe() if arrival.method in {"GET", "HEAD"} else None


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read the events of all users, of which there is one, or the single event of a plain body."""
    del source
    body = json_text.read_object(_inflated(arrival), "a Unisender Go body")
    elements, unreadable = json_text.objects_in(list(_elements(body)))
    return Parsed(events=tuple(map(_read_event, elements)), unreadable=tuple(unreadable))


def _inflated(arrival: Arrival) -> bytes:
    """Give the JSON of a compressed body, within a bound.

    Only a body that begins as gzip is taken for it: a proxy may have unpacked it on the way and
    left the header there. What is signed is the JSON, which has the signature in it.
    """
    encoding = arrival.headers.get(ENCODING_HEADER, "").strip().lower()
    if encoding != "gzip" or not arrival.body.startswith(GZIP):
        return arrival.body
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = inflater.decompress(arrival.body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise ParseError("the body is not gzip") from error
    if not inflater.eof:
        raise ParseError(f"the body has no end within {INFLATED_BYTES_MAX} bytes")
    return plain


def _digest(plain: bytes, auth: str, secret: str) -> str:
    signed = plain.replace(auth.encode(), secret.encode())
    return md5(signed, usedforsecurity=False).hexdigest()


def _elements(body: dict[str, Any]) -> Iterator[Any]:
    if "events_by_user" in body:
        users = body["events_by_user"]
        if not isinstance(users, list):
            raise ParseError("'events_by_user' of a Unisender Go body is a list")
        for user in users:
            yield from reading.list_of(reading.mapping_of(user).get("events"))
        return
    # A webhook that is set to single events sends them without the lists around.
    if "event_data" not in body and "status" not in body:
        raise ParseError("a Unisender Go body has 'events_by_user', or is an event")
    yield {name: value for name, value in body.items() if name != "auth"}


def _read_event(element: dict[str, Any]) -> Event:
    name = reading.word_of(element.get("event_name"))
    data = reading.mapping_of(element.get("event_data", element))
    info = reading.mapping_of(data.get("delivery_info"))
    type_, bounce, reject = _meaning(name, data, info)
    return Event(
        type=type_,
        identity=_identity(element, data, info),
        message_id=reading.text_of(data.get("job_id"), 400) or "",
        recipient=reading.address_of(data.get("email")),
        occurred_ms=reading.iso_ms_of(data.get("event_time") or data.get("block_time")),
        bounce=bounce,
        reject=reject,
        reason=reading.first_text_of(
            info.get("destination_response"), data.get("comment"), info.get("delivery_status")
        ),
        metadata=reading.metadata_of(data.get("metadata")),
        url=reading.text_of(data.get("url")),
        user_agent=reading.text_of(info.get("user_agent")),
        ip=reading.text_of(info.get("ip"), 60),
        raw=element,
    )


def _meaning(name: str, data: Mapping[str, Any], info: Mapping[str, Any]) -> Classification:
    if name and name != STATUS:
        return (EventType.OTHER, None, None)
    type_ = TYPES.get(reading.word_of(data.get("status")), EventType.OTHER)
    if type_ is not EventType.BOUNCED:
        return (type_, None, None)
    match reading.word_of(info.get("delivery_status")):
        case "err_unsubscribed":
            return (EventType.REJECTED, None, Reject.UNSUBSCRIBED)
        case "err_will_retry":
            return (EventType.DEFERRED, None, None)
        case word:
            return (type_, BOUNCES.get(word, Bounce.UNDETERMINED), None)


def _identity(
    element: dict[str, Any], data: Mapping[str, Any], info: Mapping[str, Any]
) -> Identity:
    if not data.get("job_id") or not data.get("status"):
        return Identity(WHOLE, element)
    names = ("job_id", "email", "status", "event_time", "url")
    fields = {name: data.get(name) for name in names}
    info_names = ("delivery_status", "ip", "user_agent", "destination_response")
    fields |= {name: info.get(name) for name in info_names}
    return Identity(EVENT, {**fields, "event_name": element.get("event_name")})


PROVIDER = Provider(
    name="unisendergo",
    title="Unisender Go",
    docs="https://godocs.unisender.ru/web-api-ref#callback-format",
    verify=verify,
    probe=probe,
    parse=parse,
    recipes=(EVENT,),
    needs=("secrets",),
    retry_horizon_s=24 * 3600,
    reads_headers=(ENCODING_HEADER,),
    types=frozenset({*TYPES.values(), EventType.REJECTED, EventType.OTHER}),
)
