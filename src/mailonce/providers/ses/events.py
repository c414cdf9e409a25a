"""SES events, read into ours.

https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html
https://docs.aws.amazon.com/ses/latest/dg/notification-contents.html
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.errors import ParseError

BOUNCES = {
    ("Transient", "ContentRejected"): Bounce.BLOCKED,
    ("Transient", "AttachmentRejected"): Bounce.BLOCKED,
}
BOUNCE_TYPES = {"Permanent": Bounce.HARD, "Transient": Bounce.SOFT}
TYPES = frozenset(EventType) - {EventType.ACCEPTED}
# What a topic is sent when an identity's notifications are pointed at it.
PROBE = "AmazonSnsSubscriptionSucceeded"
# SES calls them bounces, but it never tried: the address was on its list, or on ours there.
SUPPRESSED = frozenset({"Suppressed", "OnAccountSuppressionList"})
SUBSCRIPTIONS = {"OptOut": EventType.UNSUBSCRIBED, "OptIn": EventType.SUBSCRIBED}

# An answer to the mail, not a failure of it: the mailbox took the mail and then spoke.
ANSWERED = frozenset({"delivered", "relayed", "expanded"})
AUTO_REPLIES = ("auto-reply", "autoreply", "automatic reply", "out of office", "vacation")

_NOTHING: Mapping[str, Any] = {}

# One feedback has one id over all its recipients, and it is the same in both of its forms. The
# content is what both forms carry and what has consequences.
FEEDBACK = Recipe(
    name="ses.feedback",
    version=1,
    identity=("type", "feedbackId", "@rcpt"),
    content=(
        "messageId",
        "bounceType",
        "bounceSubType",
        "complaintSubType",
        "complaintFeedbackType",
    ),
)
DELIVERY = Recipe(
    name="ses.delivery",
    version=1,
    identity=("type", "messageId", "@rcpt", "timestamp"),
    content=("smtpResponse",),
)
DELAY = Recipe(
    name="ses.delay",
    version=1,
    identity=("type", "messageId", "@rcpt", "timestamp", "delayType"),
    content=("status", "diagnosticCode"),
)
# Happens once to a message for a recipient; such events carry no time of their own.
ONCE = Recipe(
    name="ses.once",
    version=1,
    identity=("type", "messageId", "@rcpt"),
    content=("reason", "templateName", "errorMessage"),
)
# Which recipient acted is not said, so the recipient is no part of it.
OPEN = Recipe(
    name="ses.open",
    version=1,
    identity=("type", "messageId", "timestamp", "ipAddress", "userAgent"),
)
CLICK = Recipe(
    name="ses.click",
    version=1,
    identity=(*OPEN.identity, "link", "linkTags"),
)
SUBSCRIPTION = Recipe(
    name="ses.subscription",
    version=1,
    identity=("type", "messageId", "timestamp", "contactList", "source", "stream"),
    content=("newTopicPreferences", "oldTopicPreferences"),
)


RECIPES = (FEEDBACK, DELIVERY, DELAY, ONCE, OPEN, CLICK, SUBSCRIPTION)


def read_events(message: Any, *, published_at: Any = None) -> tuple[Event, ...]:
    """Read one SES event as one event of ours for each recipient that it names.

    `published_at` is the envelope's time. It counts where the event has none: a second copy is
    published at another.

    Raises: ParseError where it is no event of SES.
    """
    if not isinstance(message, dict):
        raise ParseError("an SES event is a JSON object")
    # EventBridge wraps the same event; its copy must have the same key.
    if message.get("source") == "aws.ses" and isinstance(message.get("detail"), dict):
        message = message["detail"]
    # Event publishing says eventType, the notifications of an identity say notificationType.
    word = message.get("eventType") or message.get("notificationType")
    if not isinstance(word, str):
        raise ParseError("an SES event has a text 'eventType' or 'notificationType'")
    if word == PROBE:
        return ()
    # "Rendering Failure" is the one word with a space, and not everywhere.
    word = word.replace(" ", "")
    mail = reading.mapping_of(message.get("mail"))
    place, read = READERS.get(word, ("", _read_unknown))
    published_ms = reading.iso_ms_of(published_at)
    ses = SesNotification(word, mail, reading.mapping_of(message.get(place)), message, published_ms)
    return tuple(read(ses))


@dataclass(frozen=True, slots=True)
class SesNotification:
    """One SES event: type, mail, the object with the details, the whole message, and its time."""

    word: str
    mail: Mapping[str, Any]
    detail: Mapping[str, Any]
    message: Mapping[str, Any]
    published_ms: int | None

    def event(
        self, type_: EventType, recipe: Recipe, recipient: str, own: Mapping[str, Any] = _NOTHING
    ) -> Event:
        """Make one event. `own` is what is said of this recipient beyond the common detail."""
        fields = {
            **self.detail,
            **own,
            "type": self.word,
            "messageId": self.mail.get("messageId"),
            "rcpt": recipient,
        }
        time = self.mail if recipe is ONCE else self.detail
        own_ms = reading.iso_ms_of(time.get("timestamp"))
        return Event(
            type=type_,
            identity=_identity(recipe, fields, self.message),
            provider_event_id=reading.text_of(self.detail.get("feedbackId"), 200),
            message_id=reading.text_of(self.mail.get("messageId"), 400) or "",
            recipient=recipient,
            occurred_ms=self.published_ms if own_ms is None else own_ms,
            tags=_tags(self.mail),
            metadata=_metadata(self.mail),
            raw=self.message,
        )

    def people(self, name: str) -> list[tuple[str, Mapping[str, Any]]]:
        """List the recipients in a field of the detail, each with what is said of it.

        Some fields list addresses, some objects; where there is none, one unknown recipient
        keeps the event from being lost.
        """
        people: dict[str, Mapping[str, Any]] = {}
        for entry in reading.list_of(self.detail.get(name)):
            own = reading.mapping_of(entry)
            people.setdefault(reading.address_of(own.get("emailAddress") if own else entry), own)
        return list(people.items()) or [("", _NOTHING)]

    def destinations(self) -> list[str]:
        """List each address that the mail went to, once."""
        listed = reading.list_of(self.mail.get("destination"))
        return list(dict.fromkeys(map(reading.address_of, listed))) or [""]

    def only_destination(self) -> str:
        """Give the one recipient of the mail; '' where it is unknown which one acted."""
        addresses = self.destinations()
        return addresses[0] if len(addresses) == 1 else ""


def _read_bounce(ses: SesNotification) -> Iterator[Event]:
    kind = reading.word_of(ses.detail.get("bounceType"))
    sub = reading.word_of(ses.detail.get("bounceSubType"))
    for recipient, own in ses.people("bouncedRecipients"):
        reason = reading.text_of(own.get("diagnosticCode") or own.get("status") or sub or kind)
        if kind == "Permanent" and sub in SUPPRESSED:
            event = ses.event(EventType.REJECTED, FEEDBACK, recipient, own)
            yield replace(event, reject=Reject.SUPPRESSED, reason=reason)
        else:
            event = ses.event(EventType.BOUNCED, FEEDBACK, recipient, own)
            bounce = BOUNCES.get((kind, sub)) or BOUNCE_TYPES.get(kind, Bounce.UNDETERMINED)
            late = kind == "Transient" and _is_late(ses.detail, own)
            yield replace(event, bounce=bounce, reason=reason, late=late)


def _read_complaint(ses: SesNotification) -> Iterator[Event]:
    feedback = reading.text_of(ses.detail.get("complaintFeedbackType"))
    people = ses.people("complainedRecipients")
    for recipient, own in people:
        if ses.detail.get("complaintSubType") == "OnAccountSuppressionList":
            event = ses.event(EventType.REJECTED, FEEDBACK, recipient, own)
            event = replace(event, reject=Reject.SUPPRESSED, reason="OnAccountSuppressionList")
        else:
            # "not-spam" takes a complaint back.
            type_ = EventType.OTHER if feedback == "not-spam" else EventType.COMPLAINED
            event = replace(ses.event(type_, FEEDBACK, recipient, own), reason=feedback)
        # Mailbox providers hide who complained; SES then lists everyone it could have been.
        yield replace(event, certain=len(people) == 1)


def _read_delivery(ses: SesNotification) -> Iterator[Event]:
    reason = reading.text_of(ses.detail.get("smtpResponse"))
    for recipient, _ in ses.people("recipients"):
        yield replace(ses.event(EventType.DELIVERED, DELIVERY, recipient), reason=reason)


def _read_delay(ses: SesNotification) -> Iterator[Event]:
    for recipient, own in ses.people("delayedRecipients"):
        reason = reading.text_of(own.get("diagnosticCode") or ses.detail.get("delayType"))
        yield replace(ses.event(EventType.DEFERRED, DELAY, recipient, own), reason=reason)


def _read_send(ses: SesNotification) -> Iterator[Event]:
    for recipient in ses.destinations():
        yield ses.event(EventType.SENT, ONCE, recipient)


def _read_reject(ses: SesNotification) -> Iterator[Event]:
    is_policy = ses.word == "Reject"
    reject = Reject.POLICY if is_policy else Reject.RENDER
    reason = reading.text_of(ses.detail.get("reason" if is_policy else "errorMessage"))
    for recipient in ses.destinations():
        yield replace(ses.event(EventType.REJECTED, ONCE, recipient), reject=reject, reason=reason)


def _read_received(ses: SesNotification) -> Iterator[Event]:
    for recipient, _ in ses.people("recipients"):
        yield ses.event(EventType.INBOUND, ONCE, recipient)


def _read_engagement(ses: SesNotification) -> Iterator[Event]:
    type_, recipe = (EventType.OPENED, OPEN) if ses.word == "Open" else (EventType.CLICKED, CLICK)
    recipient = ses.only_destination()
    yield replace(
        ses.event(type_, recipe, recipient),
        url=reading.text_of(ses.detail.get("link")),
        user_agent=reading.text_of(ses.detail.get("userAgent")),
        ip=reading.text_of(ses.detail.get("ipAddress"), 60),
        certain=recipient != "",
    )


def _read_subscription(ses: SesNotification) -> Iterator[Event]:
    recipient = ses.only_destination()
    source = reading.text_of(ses.detail.get("source"))
    for stream, type_ in _changes(ses.detail):
        event = ses.event(type_, SUBSCRIPTION, recipient, {"stream": stream})
        yield replace(event, stream=stream, reason=source, certain=recipient != "")


def _read_unknown(ses: SesNotification) -> Iterator[Event]:
    identity = Identity(WHOLE, ses.message)
    yield replace(ses.event(EventType.OTHER, ONCE, ses.only_destination()), identity=identity)


def _changes(detail: Mapping[str, Any]) -> list[tuple[str, EventType]]:
    """Say which streams were left or joined; '' is all mail, and leaving it covers every topic."""
    new = reading.mapping_of(detail.get("newTopicPreferences"))
    old = reading.mapping_of(detail.get("oldTopicPreferences"))
    if new.get("unsubscribeAll") is True:
        return [("", EventType.UNSUBSCRIBED)]
    before, after = _topics(old), _topics(new)
    changes = [
        (topic, SUBSCRIPTIONS[status])
        for topic, status in after.items()
        if status in SUBSCRIPTIONS and before.get(topic) != status
    ]
    if old.get("unsubscribeAll") is True and new.get("unsubscribeAll") is False:
        changes.insert(0, ("", EventType.SUBSCRIBED))
    return changes or [("", EventType.OTHER)]


def _topics(preferences: Mapping[str, Any]) -> dict[str, str]:
    topics: dict[str, str] = {}
    for entry in reading.list_of(preferences.get("topicSubscriptionStatus")):
        topic = reading.text_of(reading.mapping_of(entry).get("topicName"), 200)
        if topic is not None:
            topics[topic] = reading.word_of(entry.get("subscriptionStatus"))
    return topics


def _is_late(detail: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Say whether a bounce came as a mail, from a server that had taken the message before.

    A refusal during SMTP is reported by SES's own server, or with the address that it spoke to.
    An automatic answer has the same form, but says nothing against the delivery.
    """
    reporter = reading.word_of(detail.get("reportingMTA")).rpartition(";")[2].strip(" .").lower()
    if not reporter or detail.get("remoteMtaIp"):
        return False
    if f".{reporter}".endswith((".amazonses.com", ".amazonses.com.cn")):
        return False
    answer = reading.word_of(own.get("diagnosticCode")).lower()
    return reading.word_of(own.get("action")).lower() not in ANSWERED and not any(
        phrase in answer for phrase in AUTO_REPLIES
    )


def _identity(recipe: Recipe, fields: Mapping[str, Any], message: Mapping[str, Any]) -> Identity:
    """Without the id that the recipe rests on, unrelated events would share a key."""
    rests_on = "feedbackId" if recipe is FEEDBACK else "messageId"
    if not reading.text_of(fields.get(rests_on)):
        whole = {"rcpt": fields["rcpt"], "stream": fields.get("stream"), "message": message}
        return Identity(WHOLE, whole)
    names = (name.lstrip("@") for name in (*recipe.identity, *recipe.content))
    return Identity(recipe, {name: fields.get(name) for name in names})


def _own_tags(mail: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """SES adds tags of its own, such as `ses:source-ip`; they are no words of the sender's."""
    for name, values in reading.mapping_of(mail.get("tags")).items():
        if not name.startswith("ses:"):
            yield name, reading.texts_of(values)


def _tags(mail: Mapping[str, Any]) -> tuple[str, ...]:
    return reading.texts_of([value for _, values in _own_tags(mail) for value in values])


def _metadata(mail: Mapping[str, Any]) -> Mapping[str, Any]:
    return reading.metadata_of({name: ", ".join(values) for name, values in _own_tags(mail)})


# Per word of SES: where its details stand, and who reads them.
READERS: Mapping[str, tuple[str, Callable[[SesNotification], Iterator[Event]]]] = {
    "Bounce": ("bounce", _read_bounce),
    "Complaint": ("complaint", _read_complaint),
    "Delivery": ("delivery", _read_delivery),
    "DeliveryDelay": ("deliveryDelay", _read_delay),
    "Send": ("send", _read_send),
    "Reject": ("reject", _read_reject),
    "RenderingFailure": ("failure", _read_reject),
    "Open": ("open", _read_engagement),
    "Click": ("click", _read_engagement),
    "Subscription": ("subscription", _read_subscription),
    "Received": ("receipt", _read_received),
}
