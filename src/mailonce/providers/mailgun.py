"""Mailgun: https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks.

The signature is hex HMAC-SHA256 over timestamp and token, and does not cover the event: whoever has
seen one may put it on any other body. So the token is handed on as a guard, good for one content.
Old accounts still post forms, with the three signing fields among the sender's own variables.
"""

from collections.abc import Container, Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Guard, Parsed, Provider, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Classification, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.moment import DAY_MS
from mailonce.core.reading import form
from mailonce.core.reading import values as reading
from mailonce.core.reading.inbound_event import inbound_event, mail_recipe
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from mailonce.providers.inbound import mailgun as inbound

# Ten digits last until the year 2286. With a fixed length, no digit can move between timestamp and
# token and so make a second token out of one signature.
TIMESTAMP_CHARS = 10
TOKEN_CHARS_MAX = 200

TYPES = {
    "accepted": EventType.ACCEPTED,
    "delivered": EventType.DELIVERED,
    "opened": EventType.OPENED,
    "clicked": EventType.CLICKED,
    "unsubscribed": EventType.UNSUBSCRIBED,
    "complained": EventType.COMPLAINED,
    "stored": EventType.INBOUND,
}
BOUNCES = {
    "bounce": Bounce.HARD,
    "generic": Bounce.HARD,
    "espblock": Bounce.BLOCKED,
    # Too long in the queue: Mailgun gave up, the address may be fine.
    "old": Bounce.SOFT,
}
REJECTS_BY_REASON = {
    "suppress-bounce": Reject.SUPPRESSED,
    "suppress-unsubscribe": Reject.UNSUBSCRIBED,
    "suppress-complaint": Reject.SUPPRESSED,
}
REJECTS_BY_CODE = {
    "605": Reject.SUPPRESSED,
    "606": Reject.UNSUBSCRIBED,
    "607": Reject.SUPPRESSED,
    "625": Reject.POLICY,
}

# An id is unique within a day only. Several webhooks post one event with different tokens.
EVENT = Recipe(
    name="mailgun.event",
    version=1,
    identity=("id", "day", "event"),
    content=("timestamp", "message-id", "@recipient", "severity", "reason", "url"),
)
# The old form has no id.
FORM = Recipe(
    name="mailgun.form",
    version=1,
    identity=(
        "event",
        "message-id",
        "@recipient",
        "timestamp",
        "code",
        "url",
        "ip",
        "user-agent",
    ),
    content=("reason", "error", "description"),
)
MAIL = mail_recipe("mailgun")
SIGNING_FIELDS = ("timestamp", "token", "signature")
# Mailgun's own fields of every form, and of single events beside them. Everything else in a form is
# one of the sender's variables, also where it has the name of another event's field.
COMMON_FIELDS = frozenset(
    """
    Message-Id X-Mailgun-Sid X-Mailgun-Tag attachment-count body-plain campaign-id campaign-name
    domain event h mailing-list message-headers message-id recipient signature tag timestamp token
    """.split()  # noqa: SIM905
)
_CLIENT_FIELDS = (
    "city client-name client-os client-type country device-type ip region user-agent".split()  # noqa: SIM905
)
EVENT_FIELDS = {
    "delivered": frozenset[str](),
    "opened": frozenset(_CLIENT_FIELDS),
    "clicked": frozenset([*_CLIENT_FIELDS, "url"]),
    "unsubscribed": frozenset(_CLIENT_FIELDS),
    "complained": frozenset[str](),
    "bounced": frozenset(["code", "error", "notification"]),
    "dropped": frozenset(["code", "description", "reason"]),
}
SIGNATURES = ("signature", "parent-signature")
TAG_FIELDS = ("tag", "X-Mailgun-Tag")
VARIABLES_HEADER = "X-Mailgun-Variables"


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the account's signature, or its parent's where the source's option allows that."""
    del keys
    try:
        if form.is_form(arrival.headers):
            body = _read_form_fields(arrival, only=SIGNING_FIELDS)
        else:
            body = json_text.read_fields(arrival.body, SIGNATURES)
    except json_text.LargeFieldError:
        return hmac_signature.WRONG
    except ParseError:
        return hmac_signature.MISSING
    verdicts = [_verify_signature(one, arrival, source) for one in _signatures(body, source)]
    return next((verdict for verdict in verdicts if isinstance(verdict, Verified)), verdicts[0])


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event in either form, or one mail."""
    if form.is_form(arrival.headers):
        parts = form.read_parts(arrival.headers, arrival.body)
        if inbound.is_mail(parts):
            mail = inbound.parse_mail(parts, source)
            event = inbound_event(mail, MAIL, raw=form.shown_fields(parts))
            signed = _read_form_fields(arrival, only=SIGNING_FIELDS)
            return Parsed(events=(event,), mails=(mail,), guard=_guard(signed, arrival, source))
    body = _read_body(arrival)
    detail = body.get("event-data")
    if not isinstance(detail, dict):
        raise ParseError("a Mailgun body has an object 'event-data'")
    read_event = _read_form if form.is_form(arrival.headers) else _read_event
    return Parsed(events=(read_event(detail),), guard=_guard(body, arrival, source))


def unsigned(arrival: Arrival) -> bytes:
    """Give a body without its signatures, which are new on every attempt."""
    try:
        body = _read_body(arrival)
    except ParseError:
        return arrival.body
    detail = body.get("event-data")
    if isinstance(detail, dict) and form.is_form(arrival.headers):
        body["event-data"] = {k: v for k, v in detail.items() if k not in SIGNING_FIELDS}
    return json_text.canonical({k: v for k, v in body.items() if k not in SIGNATURES})


def _read_body(arrival: Arrival) -> dict[str, Any]:
    """Read JSON, or bring a form into the same shape.

    A sender's variable may have the name of a signing field; Mailgun's own comes last. Of any
    other field Mailgun's own comes first.
    """
    if not form.is_form(arrival.headers):
        body = json_text.read(arrival.body)
        if not isinstance(body, dict):
            raise ParseError("a Mailgun body is a JSON object or a form")
        return body
    return _read_form_fields(arrival)


def _read_form_fields(arrival: Arrival, *, only: Container[str] | None = None) -> dict[str, Any]:
    pairs = form.read(arrival.headers, arrival.body, only=only)
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    signature = {name: fields[name][-1] for name in SIGNING_FIELDS if name in fields}
    return {"signature": signature, "event-data": fields}


def _signatures(body: dict[str, Any], source: Source) -> list[Mapping[str, Any]]:
    """List the signatures that the source lets count, the account's own first."""
    names = ["signature"]
    if source.options.get("parent_signature") is True:
        names.append("parent-signature")
    return [reading.mapping_of(body.get(name)) for name in names]


def _verify_signature(given: Mapping[str, Any], arrival: Arrival, source: Source) -> Verdict:
    timestamp = reading.text_of(given.get("timestamp"), 20)
    token, signature = given.get("token"), given.get("signature")
    if timestamp is None or not isinstance(token, str) or not isinstance(signature, str):
        return hmac_signature.MISSING
    seconds = hmac_signature.seconds_of(timestamp)
    if seconds is None or len(timestamp) != TIMESTAMP_CHARS:
        return hmac_signature.NOT_NUMERIC
    window_s = PROVIDER.freshness_s if source.freshness_s is None else source.freshness_s
    if not hmac_signature.is_fresh(seconds, now_ms=arrival.now_ms, window_s=window_s):
        return hmac_signature.STALE
    if not token.isascii() or len(token) > TOKEN_CHARS_MAX:
        return hmac_signature.WRONG
    signed = (timestamp + token).encode()
    return hmac_signature.verify_hex(source, signed, signature)


def _guard(body: dict[str, Any], arrival: Arrival, source: Source) -> Guard | None:
    """Guard the token that was proven: beside a parent's signature the other may be made up."""
    given = _signatures(body, source)
    proven = given[0]
    if len(given) > 1:
        verdicts = (_verify_signature(one, arrival, source) for one in given)
        pairs = zip(given, verdicts, strict=True)
        proven = next((one for one, verdict in pairs if isinstance(verdict, Verified)), proven)
    token = reading.text_of(proven.get("token"), TOKEN_CHARS_MAX)
    return Guard("token", token) if token is not None else None


def _read_event(detail: dict[str, Any]) -> Event:
    headers = reading.mapping_of(reading.mapping_of(detail.get("message")).get("headers"))
    status = reading.mapping_of(detail.get("delivery-status"))
    client = reading.mapping_of(detail.get("client-info"))
    message_id = _message_id(headers.get("message-id"))
    occurred_ms = reading.epoch_ms_of(detail.get("timestamp"))
    day = None if occurred_ms is None else occurred_ms // DAY_MS
    type_, bounce, reject = _meaning(detail, code=status.get("code"))
    # Mailgun gave up, but itself does not take the address for a dead one.
    if bounce is Bounce.HARD and status.get("bounce-type") == "soft":
        bounce = Bounce.SOFT
    return Event(
        type=type_,
        identity=(
            Identity(EVENT, {**detail, "day": day, "message-id": message_id})
            if reading.word_of(detail.get("id"))
            else Identity(WHOLE, detail)
        ),
        provider_event_id=reading.text_of(detail.get("id"), 200),
        message_id=message_id,
        recipient=reading.address_of(detail.get("recipient")) or _only_address(headers.get("to")),
        occurred_ms=occurred_ms,
        bounce=bounce,
        reject=reject,
        reason=reading.first_text_of(
            status.get("message"),
            status.get("description"),
            reading.mapping_of(detail.get("reject")).get("reason"),
            detail.get("reason"),
        ),
        tags=reading.texts_of(detail.get("tags")),
        metadata=reading.metadata_of(detail.get("user-variables")),
        url=reading.text_of(detail.get("url")),
        user_agent=reading.text_of(client.get("user-agent")),
        ip=reading.text_of(detail.get("ip"), 60),
        # It names the service that fetched the mail's images ahead of any reader.
        machine=True if type_ is EventType.OPENED and client.get("bot") else None,
        late=bounce is not None
        and reading.mapping_of(detail.get("flags")).get("is-delayed-bounce") is True,
        raw=detail,
    )


def _read_form(form_: dict[str, list[str]]) -> Event:
    """Read a form, which may have several values under one name."""
    fields: dict[str, Any] = {
        name: values[-1 if name in SIGNING_FIELDS else 0] for name, values in form_.items()
    }
    own = _own_fields(fields.get("event"))
    own_fields = {name: value for name, value in fields.items() if own is None or name in own}
    message_id = _message_id(fields.get("Message-Id") or fields.get("message-id"))
    recipient = reading.address_of(fields.get("recipient"))
    type_, bounce, reject = _meaning(own_fields, code=own_fields.get("code"))
    return Event(
        type=type_,
        identity=(
            Identity(FORM, {**fields, "message-id": message_id})
            if fields.get("event") and (message_id or recipient)
            else Identity(WHOLE, fields)
        ),
        message_id=message_id,
        recipient=recipient,
        occurred_ms=reading.epoch_ms_of(fields.get("timestamp")),
        bounce=bounce,
        reject=reject,
        reason=reading.first_text_of(
            own_fields.get("error"),
            own_fields.get("notification"),
            own_fields.get("description"),
            own_fields.get("reason"),
        ),
        tags=reading.texts_of(next((form_[name] for name in TAG_FIELDS if name in form_), None)),
        metadata=reading.metadata_of(_variables(form_, own)),
        url=reading.text_of(own_fields.get("url")),
        user_agent=reading.text_of(own_fields.get("user-agent")),
        ip=reading.text_of(own_fields.get("ip"), 60),
        raw={name: values if len(values) > 1 else values[0] for name, values in form_.items()},
    )


def _own_fields(word: Any) -> frozenset[str] | None:
    """List the fields that are Mailgun's own in such a form; None where that is unknown."""
    own = EVENT_FIELDS.get(reading.word_of(word))
    return None if own is None else COMMON_FIELDS | own


def _variables(form_: dict[str, list[str]], own: frozenset[str] | None) -> Mapping[str, Any]:
    """Find the sender's variables: as the mail had them where its head is sent, else by name.

    Of a name that both use, Mailgun's own value comes first, but last of the signing fields.
    """
    in_head = _variables_of_head(form_.get("message-headers", [""])[0])
    if in_head is not None:
        return in_head
    known = COMMON_FIELDS.union(*EVENT_FIELDS.values()) if own is None else own
    variables: dict[str, Any] = {}
    for name, values in form_.items():
        if name not in known:
            variables[name] = values[-1]
        elif len(values) > 1 and name not in TAG_FIELDS:
            variables[name] = values[0 if name in SIGNING_FIELDS else -1]
    return variables


def _variables_of_head(text: str) -> Mapping[str, Any] | None:
    try:
        head = json_text.read(text.encode("utf-8", "surrogatepass"))
        pairs = [row for row in reading.list_of(head) if isinstance(row, list) and len(row) == 2]
        texts = [word for name, word in pairs if name == VARIABLES_HEADER and isinstance(word, str)]
        values = [json_text.read(word.encode("utf-8", "surrogatepass")) for word in texts]
    except ParseError:
        return None
    merged: dict[str, Any] = {}
    for value in map(reading.mapping_of, values):
        merged |= value
    return merged or None


def _meaning(detail: Mapping[str, Any], *, code: Any) -> Classification:
    reason = reading.word_of(detail.get("reason"))
    match detail.get("event"):
        case "failed":
            return _failure(detail.get("severity"), reason, code)
        case "rejected":
            return (EventType.REJECTED, None, Reject.POLICY)
        case "bounced":
            return (EventType.BOUNCED, Bounce.HARD, None)
        case "dropped":
            return (EventType.REJECTED, None, _reject(reason, code) or Reject.OTHER)
        case word:
            return (TYPES.get(reading.word_of(word), EventType.OTHER), None, None)


def _failure(severity: Any, reason: str, code: Any) -> Classification:
    if severity == "temporary":
        return (EventType.DEFERRED, None, None)
    reject = _reject(reason, code)
    if reject is not None:
        return (EventType.REJECTED, None, reject)
    # Only "permanent" with a reason that is listed says anything against the address.
    known = BOUNCES.get(reason, Bounce.UNDETERMINED)
    bounce = known if severity == "permanent" else Bounce.UNDETERMINED
    return (EventType.BOUNCED, bounce, None)


def _reject(reason: str, code: Any) -> Reject | None:
    return REJECTS_BY_REASON.get(reason) or REJECTS_BY_CODE.get(reading.text_of(code) or "")


def _message_id(value: Any) -> str:
    """Leave out the angle brackets, which the send API's answer has and an event has not."""
    text = reading.text_of(value, 400) or ""
    return text.strip().removeprefix("<").removesuffix(">")


def _only_address(to: Any) -> str:
    """Read the one address of a To header; of several it is unknown which is meant."""
    return reading.address_of(to) if isinstance(to, str) and to.count("@") == 1 else ""


PROVIDER = Provider(
    name="mailgun",
    title="Mailgun",
    docs="https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks",
    verify=verify,
    parse=parse,
    recipes=(EVENT, FORM, MAIL),
    event_id="id",
    unsigned=unsigned,
    needs=("secrets",),
    signs_body=False,
    # A retry is said to carry the first attempt's signature; it may come for eight hours.
    freshness_s=9 * 3600,
    retry_horizon_s=8 * 3600,
    reads_headers=("content-type",),
    inbound=inbound.INBOUND,
    types=frozenset(TYPES.values())
    | {EventType.DEFERRED, EventType.BOUNCED, EventType.REJECTED, EventType.OTHER},
    options={"parent_signature": "`true`: the signature of the parent account counts, too"},
)
