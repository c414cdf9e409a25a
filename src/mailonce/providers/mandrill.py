"""Mandrill: https://mailchimp.com/developer/transactional/guides/track-respond-activity-webhooks/.

The body is a form with one field, `mandrill_events`, a JSON array. The signature is base64
HMAC-SHA1 over the webhook's URL and each field's name and value, sorted by name. The URL is the one
entered in Mandrill, to the last character; no proxy lets us guess it, so the option `url` says it.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Probe, Provider, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import form
from mailonce.core.reading import values as reading
from mailonce.core.reading.mail_batch import read_mails
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from mailonce.providers.inbound import mandrill as inbound

FIELD = "mandrill_events"
SIGNATURE_HEADER = "x-mandrill-signature"
# The probe is "mandrill_events=%5B%5D".
PROBE_BYTES_MAX = 100
MISCONFIGURED = Refused("source is not configured")

TYPES = {
    "send": EventType.SENT,
    "deferral": EventType.DEFERRED,
    "delivered": EventType.DELIVERED,
    "hard_bounce": EventType.BOUNCED,
    "soft_bounce": EventType.BOUNCED,
    "reject": EventType.REJECTED,
    "open": EventType.OPENED,
    "click": EventType.CLICKED,
    "spam": EventType.COMPLAINED,
    "unsub": EventType.UNSUBSCRIBED,
    "inbound": EventType.INBOUND,
}
REJECTS = {
    "hard-bounce": Reject.SUPPRESSED,
    "spam": Reject.SUPPRESSED,
    "custom": Reject.SUPPRESSED,
    "unsub": Reject.UNSUBSCRIBED,
    "invalid": Reject.INVALID,
    "invalid-sender": Reject.POLICY,
    "rule": Reject.POLICY,
    "unsigned": Reject.POLICY,
    "test-mode-limit": Reject.QUOTA,
    # On Mandrill's list for some days only: it says no more against the address than the bounce.
    "soft-bounce": Reject.OTHER,
}
# Nobody has published the descriptions of a soft bounce, so these are parts of words, and the
# option `blocked_words` replaces them. Either way no address is suppressed.
BLOCKED_WORDS = ["block", "spam"]
# Only of these does the receiving server's answer belong to the event. In a later event of the
# message it would be an older one's.
ANSWERED = frozenset({"deferral", "hard_bounce", "soft_bounce"})

# Events have no id, and whole seconds. Each recipient has a message id of its own. What else `msg`
# holds (opens, clicks, state) grows between two attempts.
EVENT = Recipe(
    name="mandrill.event",
    version=1,
    identity=("event", "_id", "ts", "@email", "url", "ip", "user_agent", "diag"),
    content=("bounce_description", "reject_reason"),
)
# A change of the lists of addresses that Mandrill always or never writes to.
SYNC = Recipe(
    name="mandrill.sync",
    version=1,
    identity=("type", "action", "@email", "ts"),
    content=("reason",),
)


def probe(arrival: Arrival, source: Source) -> Probe | None:
    """Recognise what Mandrill sends when a webhook is saved, before its key can be known.

    That is a HEAD without signature, and a batch without events.
    """
    del source
    if arrival.method == "HEAD":
        return Probe()
    is_small = arrival.method == "POST" and len(arrival.body) <= PROBE_BYTES_MAX
    if is_small and form.read_urlencoded(arrival.body) == [(FIELD, "[]")]:
        return Probe()
    return None


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over the configured URL and the decoded fields against each key."""
    del keys
    signature = arrival.headers.get(SIGNATURE_HEADER)
    if signature is None:
        return hmac_signature.MISSING
    url = source.options.get("url")
    if not isinstance(url, str) or not url:
        return MISCONFIGURED
    try:
        fields = sorted(form.read_urlencoded(arrival.body))
    except ParseError:
        return hmac_signature.WRONG
    signed = (url + "".join(name + value for name, value in fields)).encode("utf-8", "replace")
    for secret in source.secrets:
        key = secret.encode("utf-8", "replace")
        if hmac_signature.hmac_base64_matches(key, signed, signature, algorithm="sha1"):
            return Verified()
    return hmac_signature.WRONG


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read a batch of events; an element that is none is set aside, and costs no other."""
    elements, unreadable = json_text.read_objects(_batch(arrival.body))
    batch = read_mails(elements, unreadable, partial(inbound.parse_mail, source=source))
    events = tuple(_read(element, source) for element in batch.elements)
    return Parsed(events=events, mails=batch.mails, unreadable=batch.unreadable)


def check(source: Source) -> str | None:
    """Name the option without which no signature could be checked."""
    url = source.options.get("url")
    if source.is_signed and not (isinstance(url, str) and url.startswith(("https://", "http://"))):
        return "Mandrill needs the option 'url': the webhook's URL exactly as entered in Mandrill"
    words = source.options.get("blocked_words", [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        return 'option \'blocked_words\' must be a list of texts, such as ["block", "spam"]'
    return None


def _batch(body: bytes) -> bytes:
    """Give the JSON array within the form.

    An element that was set aside is tried again as a bare array; no form begins like one.
    """
    if body.lstrip().startswith(b"["):
        return body
    batch = dict(form.read_urlencoded(body)).get(FIELD)
    if batch is None:
        raise ParseError(f"a Mandrill body is a form with the field {FIELD!r}")
    return batch.encode("utf-8", "surrogatepass")


def _read(element: dict[str, Any], source: Source) -> Event:
    if "event" not in element and isinstance(element.get("type"), str):
        return _read_sync(element)
    return _read_event(element, source)


def _read_event(element: dict[str, Any], source: Source) -> Event:
    message = reading.mapping_of(element.get("msg"))
    word = reading.word_of(element.get("event"))
    reject_reason = reading.mapping_of(message.get("reject")).get("reason")
    fields = {
        **element,
        # It stands twice, but not in every event.
        "_id": element.get("_id") or message.get("_id"),
        "email": message.get("email"),
        "diag": message.get("diag") if word in ANSWERED else None,
        "bounce_description": message.get("bounce_description") if word in ANSWERED else None,
        "reject_reason": reject_reason if word == "reject" else None,
    }
    message_id = reading.text_of(fields["_id"], 400) or ""
    return Event(
        type=TYPES.get(word, EventType.OTHER),
        identity=_identity(element, fields),
        message_id=message_id,
        recipient=reading.address_of(message.get("email")),
        occurred_ms=reading.epoch_ms_of(element.get("ts")),
        bounce=_bounce(word, message, source),
        reject=_reject(reject_reason) if word == "reject" else None,
        reason=_reason(word, message),
        tags=reading.texts_of(message.get("tags")),
        metadata=reading.metadata_of(message.get("metadata")),
        url=reading.text_of(element.get("url")),
        user_agent=reading.text_of(element.get("user_agent")),
        ip=reading.text_of(element.get("ip"), 60),
        raw=element,
    )


def _identity(element: dict[str, Any], fields: dict[str, Any]) -> Identity:
    # Inbound mail has no id of Mandrill's: two mails of one second would be one.
    if not reading.word_of(fields.get("event")) or not reading.text_of(fields["_id"]):
        return Identity(WHOLE, element)
    if element.get("_id"):
        return Identity(EVENT, fields)
    return Identity(EVENT, fields, previous=Identity(WHOLE, element))


def _read_sync(element: dict[str, Any]) -> Event:
    entry = reading.mapping_of(element.get("reject") or element.get("entry"))
    fields = {**element, "email": entry.get("email"), "reason": entry.get("reason")}
    return Event(
        type=EventType.OTHER,
        # Without a time, an address that is added, removed and added again would be added once.
        identity=Identity(SYNC, fields) if element.get("ts") else Identity(WHOLE, element),
        recipient=reading.address_of(entry.get("email")),
        occurred_ms=reading.epoch_ms_of(element.get("ts")),
        reason=reading.first_text_of(entry.get("reason"), entry.get("detail")),
        raw=element,
    )


def _bounce(word: str, message: Mapping[str, Any], source: Source) -> Bounce | None:
    if word == "hard_bounce":
        return Bounce.HARD
    if word != "soft_bounce":
        return None
    description = reading.word_of(message.get("bounce_description")).casefold()
    words = reading.texts_of(source.options.get("blocked_words", BLOCKED_WORDS))
    is_blocked = any(word.casefold() in description for word in words)
    return Bounce.BLOCKED if is_blocked else Bounce.SOFT


def _reject(reason: Any) -> Reject:
    return REJECTS.get(reading.word_of(reason), Reject.OTHER)


def _reason(word: str, message: Mapping[str, Any]) -> str | None:
    if word == "reject":
        return reading.text_of(reading.mapping_of(message.get("reject")).get("reason"))
    if word not in ANSWERED:
        return None
    tries = reading.list_of(message.get("smtp_events"))
    answers = [reading.mapping_of(attempt).get("diag") for attempt in reversed(tries)]
    return reading.first_text_of(
        message.get("diag"), *answers[:1], message.get("bounce_description")
    )


PROVIDER = Provider(
    name="mandrill",
    title="Mandrill",
    docs="https://mailchimp.com/developer/transactional/guides/track-respond-activity-webhooks/",
    verify=verify,
    parse=parse,
    recipes=(EVENT, SYNC),
    check=check,
    probe=probe,
    needs=("secrets",),
    # Not documented: a batch is said to be tried again until somebody gives up on it.
    retry_horizon_s=7 * 86_400,
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.OTHER}),
    options={
        "url": "the webhook's URL exactly as entered in Mandrill (required)",
        "blocked_words": "list of words in a soft bounce's description that make it `blocked`",
    },
)
