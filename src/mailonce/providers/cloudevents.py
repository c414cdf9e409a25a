"""CloudEvents 1.0 over HTTP, in binary, structured and batched mode: https://cloudevents.io.

https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/http-protocol-binding.md
https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md

What the events mean is said by the source's options (see `core/reading/mapping.py`): pointers lead
into the event as structured mode writes it, whatever mode it came in. CloudEvents sign nothing; a
sender that also signs as Standard Webhooks do is checked where the source has its secret.

allowed_origins  senders that may ask, by OPTIONS, whether they may send here
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from itertools import count
from typing import Any
from urllib.parse import unquote

from msgspec.structs import replace

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Probe, Provider, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event
from mailonce.core.events.key import Identity, Recipe
from mailonce.core.json_text import Unreadable
from mailonce.core.reading import mapping, values
from mailonce.core.signatures import standard_webhooks
from mailonce.errors import ParseError

VERSION = "1.0"
REQUIRED = ("id", "source", "type")
# Of binary mode, the headers that are read. Extensions are not among them: no one else's names
# are known beforehand, and an arrival is kept with the headers that are.
ATTRIBUTES = ("specversion", *REQUIRED, "time", "subject", "dataschema")
STRUCTURED = "application/cloudevents"
BATCH = "application/cloudevents-batch"
ORIGIN_HEADER = "webhook-request-origin"

# An id is unique per source only. A duplicate may have other extensions (traces, sequences) and
# richer data; what is pointed at must agree.
EVENT = Recipe(
    name="cloudevents.event",
    version=1,
    identity=("source", "id"),
    content=("type", "subject", "time", "message_id", "@recipient"),
)

_ESCAPED = re.compile(r"\\(.)")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the Standard Webhooks signature where the source has a key for one."""
    if not source.secrets and not source.public_keys:
        return Verified()
    return standard_webhooks.verify(arrival, source, keys)


def probe(arrival: Arrival, source: Source) -> Probe | None:
    """Allow a listed origin to send; all others are answered that OPTIONS is not allowed.

    The callback URL that a sender may offer is never followed: we answer at once.
    """
    if arrival.method != "OPTIONS":
        return None
    request_origin = arrival.headers.get(ORIGIN_HEADER, "").strip().lower()
    for origin in values.texts_of(_list(source.options.get("allowed_origins"))):
        if origin.lower() == request_origin:
            allowed = {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*"}
            return Probe(200, {"Allow": "POST", **allowed})
    return None


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event or a batch, in the mode that the content type says."""
    media_type = _media_type(arrival.headers.get("content-type", ""))
    if media_type.startswith(BATCH):
        return _read_batch(arrival.body, source.options)
    if media_type.startswith(STRUCTURED):
        element = json_text.read(arrival.body)
    else:
        element = _unbind(arrival, media_type)
    fault = _fault_of(element)
    if fault is not None:
        raise ParseError(fault)
    event = _read(element, source.options)
    return Parsed(events=(event,))


def check(source: Source) -> str | None:
    """Name the option or key that could never work."""
    origins = source.options.get("allowed_origins", [])
    if not isinstance(origins, list | tuple) or not all(isinstance(one, str) for one in origins):
        return "option 'allowed_origins' must list names such as \"eventgrid.azure.net\""
    return standard_webhooks.fault_of(source) or mapping.fault_of(source.options)


def _read_batch(body: bytes, options: Mapping[str, Any]) -> Parsed:
    elements, unreadable = json_text.read_objects(body)
    taken = {one.position for one in unreadable}
    positions = (position for position in count() if position not in taken)
    events = []
    for position, element in zip(positions, elements, strict=False):
        fault = _fault_of(element)
        if fault is None:
            events.append(_read(element, options))
        else:
            unreadable.append(Unreadable(position, fault, json_text.canonical(element)))
    in_order = sorted(unreadable, key=lambda one: one.position)
    return Parsed(events=tuple(events), unreadable=tuple(in_order))


def _read(element: dict[str, Any], options: Mapping[str, Any]) -> Event:
    event = mapping.read_event(_with_data(element), {**_defaults(element), **options})
    if "event_id" in options:
        return replace(event, raw=element)
    fields = {
        **{name: element.get(name) for name in (*REQUIRED, "subject", "time")},
        "message_id": event.message_id,
        "recipient": event.recipient,
    }
    id_ = values.text_of(element["id"], 200)
    return replace(event, identity=Identity(EVENT, fields), provider_event_id=id_, raw=element)


def _defaults(element: Mapping[str, Any]) -> dict[str, Any]:
    """Look for the recipient in `subject`, too, but only where that is an address."""
    recipient = mapping.DEFAULTS["recipient"]
    if "@" in values.word_of(element.get("subject")):
        recipient = (*recipient, "/subject")
    return {"time": "/time", "recipient": recipient}


def _fault_of(element: Any) -> str | None:
    if not isinstance(element, dict) or element.get("specversion") != VERSION:
        return f"a CloudEvent is a JSON object with the specversion {VERSION}"
    if not all(isinstance(element.get(name), str) and element[name] for name in REQUIRED):
        return f"a CloudEvent has a text {', '.join(REQUIRED)}"
    return None


def _with_data(element: dict[str, Any]) -> dict[str, Any]:
    """Put JSON that came as base64 where pointers look for it."""
    text = element.get("data_base64")
    if "data" in element or not isinstance(text, str):
        return element
    if not _is_json(_media_type(values.word_of(element.get("datacontenttype")))):
        return element
    try:
        return {**element, "data": json_text.read(b64decode(text, validate=True))}
    except (Base64Error, ValueError, ParseError):
        return element


def _unbind(arrival: Arrival, media_type: str) -> dict[str, Any]:
    """Write an event of binary mode as structured mode would have written it."""
    element: dict[str, Any] = {
        name: _header_value(arrival.headers[f"ce-{name}"])
        for name in ATTRIBUTES
        if f"ce-{name}" in arrival.headers
    }
    if not arrival.body:
        return element
    if _is_json(media_type):
        return {**element, "data": json_text.read(arrival.body)}
    return {**element, "data": arrival.body.decode("utf-8", "replace")}


def _header_value(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    return unquote(value, errors="replace")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _is_json(media_type: str) -> bool:
    """Say whether data is JSON; where nothing is said, it is."""
    return media_type in {"", "application/json", "text/json"} or media_type.endswith("+json")


def _list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


PROVIDER = Provider(
    name="cloudevents",
    title="CloudEvents",
    docs="https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md",
    verify=verify,
    parse=parse,
    recipes=(EVENT, mapping.EVENT),
    event_id="id",
    probe=probe,
    check=check,
    signs_body=False,
    codes=Codes(full=429),
    reads_headers=tuple(f"ce-{name}" for name in ATTRIBUTES),
    options={
        **standard_webhooks.OPTIONS,
        **mapping.OPTIONS,
        "allowed_origins": "list of senders that may ask, by OPTIONS, whether they may send here",
    },
)
