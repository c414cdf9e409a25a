"""SES tells by SNS."""

from typing import Any

from mailonce.core.events.event import EventType
from mailonce.testing.keys import public_pem
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, Words
from mailonce.testing.sns import SnsSimulator

WORDS: Words = {
    EventType.DELIVERED: ("Delivery", "delivery"),
    EventType.DEFERRED: ("DeliveryDelay", "deliveryDelay"),
    EventType.BOUNCED: ("Bounce", "bounce"),
    EventType.COMPLAINED: ("Complaint", "complaint"),
    EventType.OPENED: ("Open", "open"),
    EventType.CLICKED: ("Click", "click"),
}


class Ses(SnsSimulator):
    """The source pins the public key, so nothing is fetched."""

    name = "ses"
    topic = "arn:aws:sns:eu-west-1:111122223333:mailonce-test"
    certificate_url = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem"
    retry_waits_s = (20, 20, 20)
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Pin the topic and its key."""
        pem = public_pem(self.keys.rsa())
        return {"provider": self.provider, "topic_arns": [self.topic], "public_key": pem}

    def event(self, one: Happening) -> dict[str, Any]:
        return event_of(one)


def event_of(happening: Happening) -> dict[str, Any]:
    """Write an event as SES publishes it, by whatever way."""
    word, place = WORDS[happening.type]
    detail: dict[str, Any] = {"timestamp": iso(happening.occurred_s)}
    person = {"emailAddress": happening.recipient}
    match happening.type:
        case EventType.DELIVERED:
            detail |= {"recipients": [happening.recipient], "smtpResponse": "250 ok"}
        case EventType.DEFERRED:
            detail |= {"delayedRecipients": [person], "delayType": "MailboxFull"}
        case EventType.BOUNCED:
            detail |= {"feedbackId": happening.id, "bounceType": "Permanent"}
            detail |= {"bounceSubType": "General", "bouncedRecipients": [person]}
        case EventType.COMPLAINED:
            detail |= {"feedbackId": happening.id, "complainedRecipients": [person]}
        case _:
            detail |= {"ipAddress": "192.0.2.1", "userAgent": "Mozilla/5.0"}
    mail = {
        "messageId": happening.message_id,
        "destination": [happening.recipient],
        **happening.details,
    }
    return {"eventType": word, "mail": mail, place: detail}


SIMULATOR = Ses
