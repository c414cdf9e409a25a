"""SES tells by SNS: envelopes signed with RSA, the same ones on each attempt."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.keys import public_pem
from mailonce.testing.sign import iso, sns_signature
from mailonce.testing.simulator import Happening, Post, Simulator, damaged, is_final

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mailonce-test"

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("Delivery", "delivery"),
    EventType.DEFERRED: ("DeliveryDelay", "deliveryDelay"),
    EventType.BOUNCED: ("Bounce", "bounce"),
    EventType.COMPLAINED: ("Complaint", "complaint"),
    EventType.OPENED: ("Open", "open"),
    EventType.CLICKED: ("Click", "click"),
}


class Ses(Simulator):
    """The source pins the public key, so nothing is fetched."""

    name = "ses"
    signs_time = True
    retry_waits_s = (20, 20, 20)
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Pin the topic and its key."""
        pem = public_pem(self.keys.rsa())
        return {"provider": self.provider, "topic_arns": [TOPIC], "public_key": pem}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event in an envelope; each envelope has an id of its own."""
        (happening,) = happenings
        fields = {
            "Type": "Notification",
            "MessageId": secrets.token_hex(16),
            "TopicArn": TOPIC,
            "Message": orjson.dumps(event_of(happening)).decode(),
            "Timestamp": iso(now_s),
            "SignatureVersion": "2",
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
        }
        body = orjson.dumps({**fields, "Signature": sns_signature(self.keys.rsa(), fields)})
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "x-amz-sns-message-type": fields["Type"],
            "x-amz-sns-message-id": fields["MessageId"],
            "x-amz-sns-topic-arn": TOPIC,
        }
        return Post(headers, body)

    def stops(self, code: int) -> bool:
        """SNS takes any 4xx for an answer, too."""
        return is_final(code, again=frozenset())

    def damage(self, post: Post, rng: Random) -> Post:
        """Damage what is signed: the envelope has fields that are not, and mean nothing."""
        text = post.body.decode()
        start, end = text.index('"Message":"') + 11, text.index('","Timestamp"')
        return replace(post, body=damaged(text, rng, start=start, end=end).encode())


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
    mail = {"messageId": happening.message_id, "destination": [happening.recipient]}
    return {"eventType": word, "mail": mail, place: detail}


SIMULATOR = Ses
