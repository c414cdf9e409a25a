"""Mailjet: https://dev.mailjet.com/email/guides/webhooks/.

Mailjet signs nothing: a source proves it by basic auth in the URL, or a token. The body is an array
of what happened within a second or, where events are not grouped, one bare event.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Classification, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.reading.inbound_event import inbound_event, mail_recipe
from mailonce.providers.inbound import mailjet as inbound

TYPES = {
    # The receiving server has accepted it.
    "sent": EventType.DELIVERED,
    "bounce": EventType.BOUNCED,
    "blocked": EventType.REJECTED,
    "open": EventType.OPENED,
    "click": EventType.CLICKED,
    "spam": EventType.COMPLAINED,
    "unsub": EventType.UNSUBSCRIBED,
}
# https://dev.mailjet.com/email/guides/webhooks/#possible-values-for-errors. Any other error may
# pass, and suppresses nothing.
REJECTS = {
    "preblocked": Reject.SUPPRESSED,
    "blacklisted": Reject.SUPPRESSED,
    "spam reporter": Reject.SUPPRESSED,
    "user unknown": Reject.INVALID,
    "invalid domain": Reject.INVALID,
    "no mail host": Reject.INVALID,
    "typofix": Reject.INVALID,
    "duplicate in campaign": Reject.POLICY,
    "sender blocked": Reject.POLICY,
    "content blocked": Reject.POLICY,
    "policy issue": Reject.POLICY,
    "bad or empty template": Reject.RENDER,
    "error in template language": Reject.RENDER,
}

# The sender or the content was refused: whatever the flag says, it is not about the address.
BLOCKED = frozenset({"sender blocked", "content blocked", "policy issue"})

# Events have no id, and whole seconds: the client tells the opens of one second apart.
EVENT = Recipe(
    name="mailjet.event",
    version=1,
    identity=(
        "event",
        "MessageID",
        "@email",
        "time",
        "url",
        "ip",
        "agent",
        "error",
        "hard_bounce",
    ),
    content=("error_related_to", "CustomID", "Payload"),
)

MAIL = mail_recipe("mailjet")


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event or several; an element that is no object is set aside, and costs no other."""
    elements, unreadable = json_text.read_objects(arrival.body)
    if len(elements) == 1 and inbound.is_mail(elements[0]):
        mail = inbound.parse_mail(elements[0], source)
        event = inbound_event(mail, MAIL, raw=elements[0])
        return Parsed(events=(event,), mails=(mail,), unreadable=tuple(unreadable))
    return Parsed(events=tuple(map(_read_event, elements)), unreadable=tuple(unreadable))


def _read_event(element: dict[str, Any]) -> Event:
    type_, bounce, reject = _meaning(element)
    # A number of 64 bits: as a text it survives every reader of JSON.
    message_id = reading.text_of(element.get("MessageID"), 400) or ""
    recipient = reading.address_of(element.get("email"))
    says_whose = element.get("event") and (message_id or recipient)
    return Event(
        type=type_,
        identity=Identity(EVENT if says_whose else WHOLE, element),
        message_id=message_id,
        recipient=recipient,
        occurred_ms=reading.epoch_ms_of(element.get("time")),
        bounce=bounce,
        reject=reject,
        reason=reading.first_text_of(
            element.get("comment"),
            element.get("error"),
            element.get("smtp_reply"),
            element.get("source"),
        ),
        stream=_list(element) if type_ is EventType.UNSUBSCRIBED else "",
        tags=reading.texts_of(element.get("customcampaign")),
        metadata=_metadata(element),
        url=reading.text_of(element.get("url")),
        user_agent=reading.text_of(element.get("agent")),
        ip=reading.text_of(element.get("ip"), 60),
        raw=element,
    )


def _meaning(element: Mapping[str, Any]) -> Classification:
    type_ = TYPES.get(reading.word_of(element.get("event")), EventType.OTHER)
    error = reading.word_of(element.get("error")).casefold()
    match type_:
        case EventType.BOUNCED:
            return _bounce(element, error)
        case EventType.REJECTED:
            return (type_, None, REJECTS.get(error, Reject.OTHER))
        case _:
            return (type_, None, None)


def _bounce(element: Mapping[str, Any], error: str) -> Classification:
    is_hard = element.get("hard_bounce")
    if element.get("error_related_to") == "spam" or error in BLOCKED:
        return (EventType.BOUNCED, Bounce.BLOCKED, None)
    if is_hard is True:
        return (EventType.BOUNCED, Bounce.HARD, None)
    # Reported as a bounce, but Mailjet goes on trying.
    if error == "greylisted":
        return (EventType.DEFERRED, None, None)
    return (EventType.BOUNCED, Bounce.SOFT if is_hard is False else Bounce.UNDETERMINED, None)


def _list(element: Mapping[str, Any]) -> str:
    """Name the list that was left; 0 is none, and so all mail."""
    return reading.text_of(element.get("mj_list_id") or None, 200) or ""


def _metadata(element: Mapping[str, Any]) -> Mapping[str, Any]:
    own = reading.metadata_in(element.get("Payload"), "Payload")
    custom_id = reading.text_of(element.get("CustomID"))
    return own if custom_id is None else {**own, "CustomID": custom_id}


PROVIDER = Provider(
    name="mailjet",
    title="Mailjet",
    docs="https://dev.mailjet.com/email/guides/webhooks/",
    parse=parse,
    recipes=(EVENT, MAIL),
    signs_body=False,
    # Every 30 seconds for a day; then the URL is suspended.
    retry_horizon_s=24 * 3600,
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.DEFERRED, EventType.INBOUND, EventType.OTHER}),
)
