"""SparkPost: https://docs.bird.com/api/email-api/webhooks.

SparkPost signs nothing: a source proves it by basic auth, a token or a header of its own. The body
is an array whose elements wrap one event each, `{"msys": {"<class>": {…}}}`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Probe, Provider
from mailonce.core.arrivals.source import Source, fault_of_flag
from mailonce.core.events.event import Bounce, Classification, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.reading.mail_batch import read_mails
from mailonce.providers.inbound import sparkpost as inbound

BATCH_HEADER = "x-messagesystems-batch-id"
# What is posted when a webhook is made, and no more than this.
PING = b'[{"msys":{}}]'
PING_BYTES_MAX = 100

TYPES = {
    "injection": EventType.ACCEPTED,
    "delivery": EventType.DELIVERED,
    "delay": EventType.DEFERRED,
    "policy_rejection": EventType.REJECTED,
    "generation_failure": EventType.REJECTED,
    "generation_rejection": EventType.REJECTED,
    "spam_complaint": EventType.COMPLAINED,
    "open": EventType.OPENED,
    "amp_open": EventType.OPENED,
    "click": EventType.CLICKED,
    "amp_click": EventType.CLICKED,
    "list_unsubscribe": EventType.UNSUBSCRIBED,
    "link_unsubscribe": EventType.UNSUBSCRIBED,
}
# A first open is reported twice, by one of these and by a plain open. Where only these are
# subscribed to, the option `count_first` makes opens of them.
FIRST_OPENS = frozenset({"initial_open", "amp_initial_open"})
REJECTS = {
    "policy_rejection": Reject.POLICY,
    "generation_failure": Reject.RENDER,
    "generation_rejection": Reject.POLICY,
}
# A policy rejection is also how SparkPost says that the address is on its list of suppressions.
SUPPRESSED_WORD = "suppressed"
BOUNCES = frozenset({"bounce", "out_of_band"})
# https://support.sparkpost.com/docs/deliverability/bounce-classification-codes
BOUNCE_CLASSES: dict[str, Classification] = {
    "1": (EventType.BOUNCED, Bounce.UNDETERMINED, None),
    **dict.fromkeys(("10", "30"), (EventType.BOUNCED, Bounce.HARD, None)),
    **dict.fromkeys(
        ("20", "21", "22", "23", "24", "40", "70"), (EventType.BOUNCED, Bounce.SOFT, None)
    ),
    "25": (EventType.REJECTED, None, Reject.SUPPRESSED),
    **dict.fromkeys(("50", "51", "52", "53", "54"), (EventType.BOUNCED, Bounce.BLOCKED, None)),
    # A mailbox that answers by itself says nothing against the address.
    "60": (EventType.OTHER, None, None),
    "80": (EventType.SUBSCRIBED, None, None),
    "90": (EventType.UNSUBSCRIBED, None, None),
    "100": (EventType.OTHER, None, None),
}
UNDETERMINED: Classification = (EventType.BOUNCED, Bounce.UNDETERMINED, None)
# In these the address is the recipient's, in all others that of a mail server.
ACTIONS = frozenset({EventType.OPENED, EventType.CLICKED, EventType.UNSUBSCRIBED})

# An event id is documented as unique. Only the sample batch, which is posted whenever a webhook is
# validated, has one id for all its events: with the type they are not taken for contradictions.
# The time is volatile, because it comes now as a number, now as a text of either kind.
EVENT = Recipe(
    name="sparkpost.event",
    version=1,
    identity=("event_id", "type"),
    content=("transmission_id", "message_id", "rcpt", "bounce_class"),
)


def probe(arrival: Arrival, source: Source) -> Probe | None:
    """Recognise the ping, a batch whose one element says nothing."""
    del source
    if arrival.method != "POST" or len(arrival.body) > PING_BYTES_MAX:
        return None
    return Probe() if arrival.body.translate(None, b" \t\r\n") == PING else None


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read a batch; an element that is no object is set aside, and costs no other."""
    elements, unreadable = json_text.read_objects(arrival.body)
    batch = read_mails(elements, unreadable, inbound.parse_mail)
    events = (event for element in batch.elements for event in _read_element(element, source))
    return Parsed(
        events=tuple(events),
        mails=batch.mails,
        unreadable=batch.unreadable,
        delivery_id=reading.text_of(arrival.headers.get(BATCH_HEADER), 200),
    )


def _read_element(element: dict[str, Any], source: Source) -> Iterator[Event]:
    """Read what an element wraps: one event, or none in a ping."""
    wrapped = element.get("msys")
    if not isinstance(wrapped, dict):
        yield Event(type=EventType.OTHER, identity=Identity(WHOLE, element), raw=element)
        return
    for class_, detail in wrapped.items():
        yield _read_event(class_, reading.mapping_of(detail), element, source)


def _read_event(
    class_: str, detail: Mapping[str, Any], element: dict[str, Any], source: Source
) -> Event:
    type_, bounce, reject = _meaning(class_, detail, source)
    recipient = reading.address_of(detail.get("raw_rcpt_to") or detail.get("rcpt_to"))
    event_id = reading.text_of(detail.get("event_id"))
    # What the send API has returned; `message_id` names one recipient's copy.
    message_id = detail.get("transmission_id") or detail.get("message_id")
    return Event(
        type=type_,
        identity=(
            Identity(EVENT, {**detail, "event_id": event_id, "rcpt": recipient})
            if event_id is not None
            else Identity(WHOLE, element)
        ),
        provider_event_id=event_id,
        message_id=reading.text_of(message_id, 400) or "",
        recipient=recipient,
        occurred_ms=reading.time_ms_of(detail.get("timestamp")),
        bounce=bounce,
        reject=reject,
        reason=reading.first_text_of(detail.get("raw_reason"), detail.get("reason")),
        tags=(
            *reading.texts_of(detail.get("campaign_id")),
            *reading.texts_of(detail.get("rcpt_tags")),
        ),
        metadata=reading.metadata_of(detail.get("rcpt_meta")),
        url=reading.text_of(detail.get("target_link_url")),
        user_agent=reading.text_of(detail.get("user_agent")),
        ip=reading.text_of(detail.get("ip_address"), 60) if type_ in ACTIONS else None,
        machine=_machine(detail) if type_ is EventType.OPENED else None,
        late=bounce is not None and detail.get("type") == "out_of_band",
        raw=element,
    )


def _meaning(class_: str, detail: Mapping[str, Any], source: Source) -> Classification:
    word = reading.word_of(detail.get("type"))
    if class_ == inbound.CLASS:
        return (EventType.INBOUND, None, None)
    if word in BOUNCES:
        code = reading.text_of(detail.get("bounce_class")) or ""
        return BOUNCE_CLASSES.get(code, UNDETERMINED)
    if word in FIRST_OPENS and source.options.get("count_first") is True:
        return (EventType.OPENED, None, None)
    return (TYPES.get(word, EventType.OTHER), None, _reject(word, detail))


def _reject(word: str, detail: Mapping[str, Any]) -> Reject | None:
    reject = REJECTS.get(word)
    reason = reading.first_text_of(detail.get("raw_reason"), detail.get("reason")) or ""
    if reject is Reject.POLICY and SUPPRESSED_WORD in reason.casefold():
        return Reject.SUPPRESSED
    return reject


def _machine(detail: Mapping[str, Any]) -> bool | None:
    """Say whether a mail service fetched the pixel ahead of any reader."""
    value = reading.mapping_of(detail.get("user_agent_parsed")).get("is_prefetched")
    return value if isinstance(value, bool) else None


PROVIDER = Provider(
    name="sparkpost",
    title="SparkPost",
    docs="https://docs.bird.com/api/email-api/webhooks",
    parse=parse,
    recipes=(EVENT,),
    event_id="event_id",
    check=partial(fault_of_flag, option="count_first"),
    probe=probe,
    signs_body=False,
    retry_horizon_s=8 * 3600,
    reads_headers=(BATCH_HEADER,),
    inbound=inbound.INBOUND,
    types=frozenset(
        {*TYPES.values(), *(meaning[0] for meaning in BOUNCE_CLASSES.values()), EventType.INBOUND}
    ),
    options={"count_first": "`true`: first opens count as opens, too"},
)
