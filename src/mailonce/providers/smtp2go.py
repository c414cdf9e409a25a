"""SMTP2GO: https://developers.smtp2go.com/docs/webhooks-overview.

SMTP2GO signs nothing: a source proves it by basic auth, a bearer token, a token in the URL or the
addresses of webhooks.smtp2go.com. One request is one event, as JSON or as a form.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source, fault_of_flag
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Alias, Identity, Recipe
from mailonce.core.reading import form
from mailonce.core.reading import values as reading
from mailonce.errors import ParseError

TYPES = {
    "processed": EventType.ACCEPTED,
    "delivered": EventType.DELIVERED,
    "open": EventType.OPENED,
    "click": EventType.CLICKED,
    "bounce": EventType.BOUNCED,
    "spam": EventType.COMPLAINED,
    "unsubscribe": EventType.UNSUBSCRIBED,
    "resubscribe": EventType.SUBSCRIBED,
    # Suppressed, an unverified sender or a sandbox: which of them, only a sentence says.
    "reject": EventType.REJECTED,
}
BOUNCES = {"hard": Bounce.HARD, "soft": Bounce.SOFT}

# Everything else is a header of the mail that the webhook was set to repeat.
KNOWN_FIELDS = frozenset(
    """
    auth bounce context email_id event from from_address from_name host id message message-id
    read-secs rcpt recipients sender sendtime srchost subject time url user-agent username
    """.split()  # noqa: SIM905
)

# `id` is "a unique id for the webhook". If that is the setting's own, all events would fall
# together by it; if it is an attempt's, no copy would be known. So it is no part of the key, and
# an alias only where the source's option `id_names_event` says that it was seen to be the event's.
EVENT = Recipe(
    name="smtp2go.event",
    version=1,
    identity=(
        "event",
        "email_id",
        "@rcpt",
        "time",
        "bounce",
        "message",
        "srchost",
        "user-agent",
        "read-secs",
        "context",
    ),
    content=("sender", "message-id"),
)

_ENGAGEMENTS = frozenset({EventType.OPENED, EventType.CLICKED, EventType.UNSUBSCRIBED})


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event; a form and JSON with the same fields are copies of each other."""
    if form.is_form(arrival.headers):
        fields: Any = dict(form.read(arrival.headers, arrival.body))
    else:
        fields = json_text.read(arrival.body)
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        raise ParseError("an SMTP2GO body is a form or a JSON object, with a text 'event'")
    return Parsed(events=(_read_event(fields, source),))


def _read_event(fields: dict[str, Any], source: Source) -> Event:
    type_ = TYPES.get(fields["event"], EventType.OTHER)
    return Event(
        type=type_,
        identity=_identity(fields, source),
        provider_event_id=_event_id(fields, source),
        message_id=reading.text_of(fields.get("email_id"), 400) or "",
        recipient=reading.address_of(fields.get("rcpt")),
        occurred_ms=_occurred_ms(fields.get("time")),
        bounce=_bounce(fields.get("bounce")) if type_ is EventType.BOUNCED else None,
        reject=Reject.OTHER if type_ is EventType.REJECTED else None,
        reason=reading.text_of(fields.get("message")),
        metadata=reading.metadata_of(
            {name: value for name, value in fields.items() if name.lower() not in KNOWN_FIELDS}
        ),
        url=_url(fields) if type_ is EventType.CLICKED else None,
        user_agent=reading.text_of(fields.get("user-agent")),
        # Of other events it is the machine that handed the mail in.
        ip=reading.text_of(fields.get("srchost"), 60) if type_ in _ENGAGEMENTS else None,
        raw=fields,
    )


def _event_id(fields: dict[str, Any], source: Source) -> str | None:
    """Give the `id`, which may name the webhook, where the operator says that it names an event."""
    id_ = reading.text_of(fields.get("id"), 200)
    return id_ if source.options.get("id_names_event") is True else None


def _identity(fields: dict[str, Any], source: Source) -> Identity:
    id_ = _event_id(fields, source)
    aliases = () if id_ is None else (Alias("id", id_),)
    if not fields.get("email_id") and not fields.get("rcpt"):
        return Identity(WHOLE, fields, aliases)
    return Identity(EVENT, _as_form(fields), aliases)


def _as_form(fields: dict[str, Any]) -> Mapping[str, Any]:
    """Write the fields as a form would: numbers as text, and None for empty texts."""
    form_fields: dict[str, Any] = {}
    for name, value in fields.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        form_fields[name] = str(value) if is_number else (None if value == "" else value)
    return form_fields


def _occurred_ms(time: Any) -> int | None:
    """Read the documented text in UTC; unix seconds have been seen by others."""
    moment = reading.iso_ms_of(time)
    return reading.epoch_ms_of(time) if moment is None else moment


def _bounce(word: Any) -> Bounce:
    return BOUNCES.get(reading.word_of(word).lower(), Bounce.UNDETERMINED)


def _url(fields: dict[str, Any]) -> str | None:
    """No field is documented to hold the link; `context` has been seen with it."""
    for name in ("url", "context"):
        text = reading.text_of(fields.get(name))
        if text is not None and text.startswith(("http://", "https://")):
            return text
    return None


PROVIDER = Provider(
    name="smtp2go",
    title="SMTP2GO",
    docs="https://developers.smtp2go.com/docs/webhooks-overview",
    parse=parse,
    recipes=(EVENT,),
    event_id="id",
    check=partial(fault_of_flag, option="id_names_event"),
    signs_body=False,
    # "Up to 48 hours", but the listed waits add up to more.
    retry_horizon_s=72 * 3600,
    reads_headers=("content-type",),
    types=frozenset({*TYPES.values(), EventType.OTHER}),
    options={"id_names_event": "`true`: the field `id` names one event, not the webhook"},
)
