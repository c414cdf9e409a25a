"""Events of generic senders, read by the JSON pointers and words in a source's options.

A generic source says in its options where type, message, recipient and time stand, and which of
the sender's words mean which type of ours. What it leaves out has a default that fits the payload
convention of Standard Webhooks, our own events, and the words that mail services use.

An event is known by its id. Without one it is known by what `key` lists, else by message, type,
time, recipient and link together; whatever else a copy carries may differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailonce.core import json_text
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.json_text import Unreadable
from mailonce.core.reading import values as reading
from mailonce.errors import ParseError

# Per option the pointers to try, in this order; the first that leads to something counts.
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "type": ("/type",),
    "time": ("/timestamp", "/created_at", "/occurred_at"),
    "message_id": ("/data/email_id", "/data/message_id", "/data/id", "/message_id"),
    "recipient": ("/data/to", "/data/recipient", "/data/email", "/recipient"),
    "bounce": ("/bounce", "/data/bounce/type"),
    "reason": ("/reason", "/data/reason", "/data/bounce/message"),
    "url": ("/url", "/data/click/link", "/data/url"),
}
POINTERS = (*DEFAULTS, "event_id", "elements")

# What a source's options may say, for the providers that read events by them.
OPTIONS: Mapping[str, str] = {
    "type": "JSON pointer to the sender's word for what happened",
    "time": "JSON pointer to when it happened",
    "message_id": "JSON pointer to the id of the mail",
    "recipient": "JSON pointer to the recipient",
    "bounce": "JSON pointer to the class of a bounce",
    "reason": "JSON pointer to why",
    "url": "JSON pointer to the link that was clicked",
    "event_id": "JSON pointer to the id of the event, equal in all copies of it",
    "key": "list of what copies are known by where there is no id",
    "words": 'the sender\'s words and what they mean, such as `{fail = "bounced:hard"}`',
}
# Where a body holds a list of events.
LIST_OPTIONS: Mapping[str, str] = {**OPTIONS, "elements": "JSON pointer to the list of events"}

BOUNCES = {
    **{bounce.value: bounce for bounce in Bounce},
    "permanent": Bounce.HARD,
    "transient": Bounce.SOFT,
}

# The pointed-at values, not the element, are what copies must agree on: a sender that enriches
# an event between two attempts repeats it, one that moves it to another recipient contradicts it.
EVENT = Recipe(
    name="mapped.event",
    version=1,
    identity=("event_id",),
    content=("type", "message_id", "@recipient", "time"),
)


# For senders that give events no id.
COMPOSITE = Recipe(
    name="mapped.composite",
    version=1,
    identity=("key",),
    content=("type", "message_id", "@recipient", "time", "bounce"),
)
KEY = ("message_id", "type", "time", "recipient", "url")
# Without these, unrelated events would share a key.
KEY_NEEDS = frozenset({"message_id", "type", "time"})


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a sender's word means in ours."""

    type: EventType
    bounce: Bounce | None = None
    reject: Reject | None = None


def meaning_of(text: Any) -> Meaning | None:
    """Read an operator's translation: `delivered`, `bounced:hard`, `rejected:suppressed`."""
    word, colon, detail = reading.word_of(text).partition(":")
    if word not in EventType.__members__.values():
        return None
    type_ = EventType(word)
    if not colon:
        return Meaning(type_)
    if type_ is EventType.BOUNCED and detail in Bounce.__members__.values():
        return Meaning(type_, bounce=Bounce(detail))
    if type_ is EventType.REJECTED and detail in Reject.__members__.values():
        return Meaning(type_, reject=Reject(detail))
    return None


# What mail services call these events, with or without "email." before it.
_SERVICE_WORDS = {
    "processed": Meaning(EventType.ACCEPTED),
    "queued": Meaning(EventType.ACCEPTED),
    "send": Meaning(EventType.SENT),
    "deferral": Meaning(EventType.DEFERRED),
    "delayed": Meaning(EventType.DEFERRED),
    "delivery": Meaning(EventType.DELIVERED),
    "bounce": Meaning(EventType.BOUNCED),
    "hard_bounce": Meaning(EventType.BOUNCED, bounce=Bounce.HARD),
    "hard_bounced": Meaning(EventType.BOUNCED, bounce=Bounce.HARD),
    "soft_bounce": Meaning(EventType.BOUNCED, bounce=Bounce.SOFT),
    "soft_bounced": Meaning(EventType.BOUNCED, bounce=Bounce.SOFT),
    "dropped": Meaning(EventType.REJECTED, reject=Reject.OTHER),
    "reject": Meaning(EventType.REJECTED, reject=Reject.OTHER),
    "complaint": Meaning(EventType.COMPLAINED),
    "spam": Meaning(EventType.COMPLAINED),
    "spam_complaint": Meaning(EventType.COMPLAINED),
    "spamreport": Meaning(EventType.COMPLAINED),
    "open": Meaning(EventType.OPENED),
    "click": Meaning(EventType.CLICKED),
    "unsubscribe": Meaning(EventType.UNSUBSCRIBED),
    "resubscribe": Meaning(EventType.SUBSCRIBED),
    "subscribe": Meaning(EventType.SUBSCRIBED),
}
WORDS: Mapping[str, Meaning] = {
    **{type_.value: Meaning(type_) for type_ in EventType},
    **{f"email.{type_.value}": Meaning(type_) for type_ in EventType},
    **{f"{each}{word}": _SERVICE_WORDS[word] for each in ("", "email.") for word in _SERVICE_WORDS},
    "email.scheduled": Meaning(EventType.ACCEPTED),
    "email.delivery_delayed": Meaning(EventType.DEFERRED),
    "email.failed": Meaning(EventType.REJECTED, reject=Reject.OTHER),
    "email.suppressed": Meaning(EventType.REJECTED, reject=Reject.SUPPRESSED),
    "email.received": Meaning(EventType.INBOUND),
}


def read_event(
    element: Mapping[str, Any], options: Mapping[str, Any], *, event_id: str | None = None
) -> Event:
    """Read one element as the source's options say.

    `event_id` is what the sender's headers call this event. A pointer of that name in the options
    goes first, and where it leads nowhere the headers' id is not believed either: whoever sets the
    pointer says that the headers name something else. Without any id the event is known by what
    it says, or where that does not tell it from others, by the whole element.
    """
    if "event_id" in options:
        event_id = reading.text_of(_picked(element, options, "event_id"), 400)
    time = _picked(element, options, "time")
    word = _picked(element, options, "type")
    message_id = _picked(element, options, "message_id")
    recipient, certain = reading.recipient_of(_picked(element, options, "recipient"))
    meaning = _meaning(reading.word_of(word), options)
    bounce, url = _picked(element, options, "bounce"), _picked(element, options, "url")
    picked = {
        "event_id": event_id,
        "type": word,
        "message_id": message_id,
        "recipient": recipient,
        "time": time,
        "url": url,
        "bounce": bounce,
    }
    return Event(
        type=meaning.type,
        identity=Identity(EVENT, picked) if event_id else _composite(element, options, picked),
        provider_event_id=event_id,
        message_id=reading.text_of(message_id, 400) or "",
        recipient=recipient,
        occurred_ms=reading.time_ms_of(time),
        bounce=_bounce(meaning, bounce),
        reject=meaning.reject,
        reason=reading.text_of(_picked(element, options, "reason")),
        url=reading.text_of(url),
        certain=certain,
        raw=element,
    )


def read_events(body: bytes, options: Mapping[str, Any]) -> tuple[list[Event], list[Unreadable]]:
    """Read a body that is one event, or a list, or has its list where `elements` points.

    Raises: ParseError where there is none of them.
    """
    elements, unreadable = read_elements(body, options)
    return [read_event(element, options) for element in elements], unreadable


def read_elements(
    body: bytes, options: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    """Find the elements that are events in such a body; what is no object is set aside.

    Raises: ParseError where there is none of them.
    """
    path = options.get("elements")
    return json_text.read_objects(body) if path is None else _objects_at(body, path)


def fault_of(options: Mapping[str, Any]) -> str | None:
    """Say in one sentence what is wrong with a source's pointers and words, or None."""
    for name in POINTERS:
        if name in options and not all(_is_pointer(one) for one in _pointers(options, name)):
            return f"option {name!r} must be a JSON pointer such as '/data/id', or a list of them"
    key = options.get("key", KEY)
    if not (isinstance(key, list | tuple) and key and all(map(_is_part_of_key, key))):
        return f"option 'key' must list some of {', '.join(KEY)}, or JSON pointers such as '/id'"
    words = options.get("words", {})
    if not isinstance(words, Mapping):
        return 'option \'words\' must map the sender\'s words to ours, such as {"fail": "bounced"}'
    for word, text in words.items():
        if meaning_of(text) is None:
            return (
                f"option 'words' gives {word!r} the meaning {text!r}; use one of "
                f"{', '.join(EventType)}, or with a class as in 'bounced:hard'"
            )
    return None


def _composite(
    element: Mapping[str, Any], options: Mapping[str, Any], picked: Mapping[str, Any]
) -> Identity:
    """Identify an event that has no id; of a source's own `key` one value is enough."""
    whole = Identity(WHOLE, element)
    names = options.get("key", KEY)
    if not isinstance(names, list | tuple) or not all(map(_is_part_of_key, names)):
        return whole
    parts = [picked[name] if name in KEY else reading.pointer(element, name) for name in names]
    present = {name for name, part in zip(names, parts, strict=True) if part not in (None, "")}
    if not present or ("key" not in options and not present >= KEY_NEEDS):
        return whole
    return Identity(COMPOSITE, {**picked, "key": parts}, previous=whole)


def _is_part_of_key(name: Any) -> bool:
    return name in KEY if isinstance(name, str) and not name.startswith("/") else _is_pointer(name)


def _objects_at(body: bytes, path: Any) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    elements = reading.pointer(json_text.read(body), reading.word_of(path))
    if not isinstance(elements, list):
        raise ParseError(f"there is no list of events at {path!r}")
    return json_text.objects_in(elements)


def _picked(element: Mapping[str, Any], options: Mapping[str, Any], name: str) -> Any:
    for path in _pointers(options, name):
        value = reading.pointer(element, path) if _is_pointer(path) else None
        if value is not None:
            return value
    return None


def _pointers(options: Mapping[str, Any], name: str) -> Sequence[Any]:
    given = options.get(name)
    if given is None:
        return DEFAULTS.get(name, ())
    return given if isinstance(given, list | tuple) else (given,)


def _is_pointer(path: Any) -> bool:
    return isinstance(path, str) and path.startswith("/")


def _meaning(word: str, options: Mapping[str, Any]) -> Meaning:
    words = reading.mapping_of(options.get("words"))
    own = meaning_of(words.get(word)) if word in words else None
    return own or WORDS.get(word.lower()) or Meaning(EventType.OTHER)


def _bounce(meaning: Meaning, word: Any) -> Bounce | None:
    if meaning.type is not EventType.BOUNCED:
        return None
    if meaning.bounce is not None:
        return meaning.bounce
    return BOUNCES.get(reading.word_of(word).lower(), Bounce.UNDETERMINED)
