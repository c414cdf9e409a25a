"""MailWebhook, which turns mail into webhooks: https://docs.mailwebhook.com/docs/delivery/signatures/.

`X-MailWebhook-Signature: t=…, kid=…, v1=…` has the base64 HMAC-SHA256 over `{t}.` and the raw
body. The body is what the customer's own mapper made of a mail: the generic one's we know, of all
others the options of `core/reading/mapping.py` say where things stand.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import mapping, values
from mailonce.core.signatures import timed_signature
from mailonce.providers.inbound import mailwebhook as inbound

SIGNATURE_HEADER = "x-mailwebhook-signature"
# The second is left out where the customer's own headers have one of that name.
KEY_HEADERS = ("x-idempotency-key", "idempotency-key")

# The key stands for a mail on a route, and is equal on retries and on replays. Another body under a
# known key is a collision, unless the operator replays mail through a mapper that has changed: the
# option `other_content` then says that it is a revision.
OTHER_CONTENT = ("conflict", "revision")
MAIL = Recipe(name="mailwebhook.mail", version=1, identity=("key",), content=("body",))


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature against each of the source's secrets."""
    del keys
    return timed_signature.verify(
        arrival, source, header=SIGNATURE_HEADER, window_s=PROVIDER.freshness_s
    )


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one mail, in whatever shape its mapper gave it."""
    body = json_text.read(arrival.body)
    given = (values.text_of(arrival.headers.get(name), 256) for name in KEY_HEADERS)
    key = next(filter(None, given), None)
    identity = Identity(MAIL, {"key": key, "body": body}) if key else _whole(body)
    event = replace(_read(body, source.options), identity=identity, provider_event_id=key)
    mail = inbound.parse_mail(body, source, delivery_id=key)
    return Parsed(events=(event,), mails=() if mail is None else (mail,), delivery_id=key)


def check(source: Source) -> str | None:
    """Name the option that could never work."""
    if source.options.get("other_content", OTHER_CONTENT[0]) not in OTHER_CONTENT:
        return f"option 'other_content' must be one of {', '.join(OTHER_CONTENT)}"
    return mapping.fault_of(source.options)


def _whole(body: Any) -> Identity:
    return Identity(WHOLE, body if isinstance(body, dict) else {"body": body})


def _read(body: Any, options: Mapping[str, Any]) -> Event:
    if not isinstance(body, dict):
        return Event(type=EventType.INBOUND, identity=_whole(body), raw=body)
    if values.mapping_of(body.get("schema")).get("name") == inbound.GENERIC:
        return _read_generic(body)
    event = mapping.read_event(body, options)
    return replace(event, type=EventType.INBOUND, bounce=None, reject=None)


def _read_generic(body: dict[str, Any]) -> Event:
    message = values.mapping_of(body.get("message"))
    meta = values.mapping_of(body.get("meta"))
    recipient, certain = _recipient(body, message)
    return Event(
        type=EventType.INBOUND,
        identity=_whole(body),
        message_id=values.text_of(message.get("message_id"), 400) or "",
        recipient=recipient,
        # Not the mail's own date, which is whatever its sender wrote.
        occurred_ms=values.iso_ms_of(meta.get("received_at")),
        certain=certain,
        raw=body,
    )


def _recipient(body: Mapping[str, Any], message: Mapping[str, Any]) -> tuple[str, bool]:
    """Read whom the mail was for: as SMTP had it where that is known, else as its head says."""
    envelope = values.mapping_of(body.get("envelope"))
    people = map(values.mapping_of, values.list_of(message.get("to")))
    return values.recipient_of(envelope.get("rcpt_to") or [one.get("email") for one in people])


PROVIDER = Provider(
    name="mailwebhook",
    title="MailWebhook",
    docs="https://docs.mailwebhook.com/docs/delivery/signatures/",
    verify=verify,
    parse=parse,
    recipes=(MAIL,),
    event_id="X-Idempotency-Key",
    check=check,
    needs=("secrets",),
    revises=True,
    freshness_s=300,
    # Six attempts end after 43 minutes, but its own receivers remember keys for a week: replays.
    retry_horizon_s=7 * 86_400,
    codes=Codes(done=204, full=429, refused_is_final=True),
    reads_headers=KEY_HEADERS,
    inbound=inbound.INBOUND,
    types=frozenset({EventType.INBOUND}),
    options={
        **mapping.OPTIONS,
        "other_content": "what other content under a known key is: "
        "`conflict` (default) or `revision`",
    },
)
