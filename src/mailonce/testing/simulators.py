"""One simulator per provider: says what happened in its words, and signs as it does.

Each has keys of its own; `settings` is what `POST /v1/sources` needs to trust them.
"""

import hmac
import secrets
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, ClassVar, Protocol

import orjson
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mailonce.core.event import EventType

HONEST_DOMAIN = b"example.net"
# As long as the honest one, so that only a signature can tell.
FORGED_DOMAIN = b"example.org"

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mailonce-test"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to one message for one recipient at `example.net`.

    Types that every simulator knows: delivered, deferred, bounced (hard), complained, opened,
    clicked. `id` is the provider's own id of the event.
    """

    id: str
    type: EventType
    message_id: str
    recipient: str
    occurred_s: int


@dataclass(frozen=True, slots=True)
class Post:
    """A request as a provider sends it."""

    headers: dict[str, str]
    body: bytes


class Simulator(Protocol):
    """A provider's sending side."""

    provider: str
    # How many happenings one post can tell.
    batch_max: int
    # Whether its signature has a time that can be too old.
    signs_time: bool

    def settings(self) -> dict[str, Any]:
        """Give the settings of a source that trusts this simulator."""

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell what happened, signed at `now_s`."""

    def forge(self, post: Post) -> Post:
        """Change a post as someone without the keys would."""


def make_simulators() -> dict[str, Simulator]:
    """Make one simulator of each provider, with fresh keys."""
    made: list[Simulator] = [Sendgrid(), Ses(), Mailgun(), Postmark(), Sesmetric()]
    return {one.provider: one for one in made}


class Sendgrid:
    """Signs time and body with ECDSA, and tells many events at once."""

    provider = "sendgrid"
    batch_max = 8
    signs_time = True
    words: ClassVar[dict[EventType, Any]] = {
        EventType.DELIVERED: "delivered",
        EventType.DEFERRED: "deferred",
        EventType.BOUNCED: "bounce",
        EventType.COMPLAINED: "spamreport",
        EventType.OPENED: "open",
        EventType.CLICKED: "click",
    }

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())

    def settings(self) -> dict[str, Any]:
        """Give the public key as SendGrid's settings page shows it."""
        der = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return {"provider": self.provider, "public_key": b64encode(der).decode()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in an array."""
        body = orjson.dumps([self._element(one) for one in happenings])
        signature = self._key.sign(str(now_s).encode() + body, ec.ECDSA(SHA256()))
        headers = {
            "Content-Type": "application/json",
            "X-Twilio-Email-Event-Webhook-Timestamp": str(now_s),
            "X-Twilio-Email-Event-Webhook-Signature": b64encode(signature).decode(),
        }
        return Post(headers, body)

    def forge(self, post: Post) -> Post:
        """Name other recipients."""
        return _with_other_recipients(post)

    def _element(self, one: Happening) -> dict[str, Any]:
        element = {
            "event": self.words[one.type],
            "email": one.recipient,
            "timestamp": one.occurred_s,
            "sg_event_id": one.id,
            "sg_message_id": f"{one.message_id}.filter0001.1.0",
            "smtp-id": f"<{one.message_id}@mail.example.com>",
        }
        match one.type:
            case EventType.BOUNCED:
                element |= {"type": "bounce", "status": "5.1.1", "reason": "550 no such user"}
            case EventType.CLICKED:
                element |= {"url": "https://example.com/welcome"}
            case _:
                pass
        return element


class Ses:
    """SNS envelopes, signed with RSA; the source pins the public key, so nothing is fetched."""

    provider = "ses"
    batch_max = 1
    signs_time = True
    words: ClassVar[dict[EventType, Any]] = {
        EventType.DELIVERED: ("Delivery", "delivery"),
        EventType.DEFERRED: ("DeliveryDelay", "deliveryDelay"),
        EventType.BOUNCED: ("Bounce", "bounce"),
        EventType.COMPLAINED: ("Complaint", "complaint"),
        EventType.OPENED: ("Open", "open"),
        EventType.CLICKED: ("Click", "click"),
    }

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def settings(self) -> dict[str, Any]:
        """Pin the topic and its key."""
        pem = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return {"provider": self.provider, "topic_arns": [TOPIC], "public_key": pem.decode()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event in an envelope; each envelope has an id of its own."""
        (one,) = happenings
        fields = {
            "Type": "Notification",
            "MessageId": secrets.token_hex(16),
            "TopicArn": TOPIC,
            "Message": orjson.dumps(self._message(one)).decode(),
            "Timestamp": _iso(now_s),
            "SignatureVersion": "2",
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0.pem",
        }
        names = ("Message", "MessageId", "Timestamp", "TopicArn", "Type")
        signed = "".join(f"{name}\n{fields[name]}\n" for name in names).encode()
        signature = self._key.sign(signed, padding.PKCS1v15(), SHA256())
        body = orjson.dumps({**fields, "Signature": b64encode(signature).decode()})
        headers = {
            "Content-Type": "text/plain; charset=UTF-8",
            "x-amz-sns-message-type": fields["Type"],
            "x-amz-sns-message-id": fields["MessageId"],
            "x-amz-sns-topic-arn": TOPIC,
        }
        return Post(headers, body)

    def forge(self, post: Post) -> Post:
        """Name another recipient."""
        return _with_other_recipients(post)

    def _message(self, one: Happening) -> dict[str, Any]:
        word, place = self.words[one.type]
        detail: dict[str, Any] = {"timestamp": _iso(one.occurred_s)}
        person = {"emailAddress": one.recipient}
        match one.type:
            case EventType.DELIVERED:
                detail |= {"recipients": [one.recipient], "smtpResponse": "250 ok"}
            case EventType.DEFERRED:
                detail |= {"delayedRecipients": [person], "delayType": "MailboxFull"}
            case EventType.BOUNCED:
                detail |= {"feedbackId": one.id, "bounceType": "Permanent"}
                detail |= {"bounceSubType": "General", "bouncedRecipients": [person]}
            case EventType.COMPLAINED:
                detail |= {"feedbackId": one.id, "complainedRecipients": [person]}
            case _:
                detail |= {"ipAddress": "192.0.2.1", "userAgent": "Mozilla/5.0"}
        mail = {"messageId": one.message_id, "destination": [one.recipient]}
        return {"eventType": word, "mail": mail, place: detail}


class Mailgun:
    """Signs time and a token, not the body; every post has a token of its own."""

    provider = "mailgun"
    batch_max = 1
    signs_time = True
    words: ClassVar[dict[EventType, Any]] = {
        EventType.DELIVERED: {"event": "delivered"},
        EventType.DEFERRED: {"event": "failed", "severity": "temporary", "reason": "generic"},
        EventType.BOUNCED: {"event": "failed", "severity": "permanent", "reason": "bounce"},
        EventType.COMPLAINED: {"event": "complained"},
        EventType.OPENED: {"event": "opened"},
        EventType.CLICKED: {"event": "clicked", "url": "https://example.com/welcome"},
    }

    def __init__(self) -> None:
        self._secret = secrets.token_hex(16)

    def settings(self) -> dict[str, Any]:
        """Give the signing key."""
        return {"provider": self.provider, "secret": self._secret}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (one,) = happenings
        token = secrets.token_hex(25)
        signature = {
            "timestamp": str(now_s),
            "token": token,
            "signature": _hmac_hex(self._secret, f"{now_s}{token}".encode()),
        }
        detail = {
            "id": one.id,
            "timestamp": float(one.occurred_s),
            "recipient": one.recipient,
            "message": {"headers": {"message-id": one.message_id}},
            **self.words[one.type],
        }
        body = orjson.dumps({"signature": signature, "event-data": detail})
        return Post({"Content-Type": "application/json"}, body)

    def forge(self, post: Post) -> Post:
        """Make up a token: one that was seen is good for its own body only."""
        forged = orjson.loads(_with_other_recipients(post).body)
        forged["signature"]["token"] = secrets.token_hex(25)
        return Post(post.headers, orjson.dumps(forged))


class Postmark:
    """Signs nothing; a password in the URL proves it."""

    provider = "postmark"
    batch_max = 1
    signs_time = False
    words: ClassVar[dict[EventType, Any]] = {
        EventType.DELIVERED: ("Delivery", "DeliveredAt"),
        EventType.DEFERRED: ("Bounce", "BouncedAt"),
        EventType.BOUNCED: ("Bounce", "BouncedAt"),
        EventType.COMPLAINED: ("SpamComplaint", "BouncedAt"),
        EventType.OPENED: ("Open", "ReceivedAt"),
        EventType.CLICKED: ("Click", "ReceivedAt"),
    }
    kinds: ClassVar[dict[EventType, Any]] = {
        EventType.DEFERRED: "Transient",
        EventType.BOUNCED: "HardBounce",
        EventType.COMPLAINED: "SpamComplaint",
    }

    def __init__(self) -> None:
        self._basic = f"postmark:{secrets.token_hex(16)}"

    def settings(self) -> dict[str, Any]:
        """Give user and password."""
        return {"provider": self.provider, "basic": self._basic}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one record."""
        del now_s
        (one,) = happenings
        kind, time = self.words[one.type]
        record: dict[str, Any] = {
            "RecordType": kind,
            "MessageID": one.message_id,
            "MessageStream": "outbound",
            time: _iso(one.occurred_s),
        }
        if one.type in self.kinds:
            record |= {"Email": one.recipient, "Type": self.kinds[one.type]}
            record["ID"] = int.from_bytes(sha256(one.id.encode()).digest()[:6])
        else:
            record["Recipient"] = one.recipient
        headers = {"Content-Type": "application/json", "Authorization": _basic(self._basic)}
        return Post(headers, orjson.dumps(record))

    def forge(self, post: Post) -> Post:
        """Guess a password."""
        forged = _with_other_recipients(post)
        return Post({**forged.headers, "Authorization": _basic("postmark:guess")}, forged.body)


class Sesmetric:
    """Signs time and body with HMAC."""

    provider = "sesmetric"
    batch_max = 1
    signs_time = True

    def __init__(self) -> None:
        self._secret = secrets.token_hex(16)

    def settings(self) -> dict[str, Any]:
        """Give the secret."""
        return {"provider": self.provider, "secret": self._secret}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (one,) = happenings
        event = {
            "id": one.id,
            "type": one.type.value,
            "message_id": one.message_id,
            "recipient": one.recipient,
            "timestamp": one.occurred_s,
        }
        if one.type is EventType.BOUNCED:
            event["bounce_type"] = "hard"
        body = orjson.dumps(event)
        headers = {
            "Content-Type": "application/json",
            "X-SESMetric-Timestamp": str(now_s),
            "X-SESMetric-Signature": _hmac_hex(self._secret, f"{now_s}.".encode() + body),
        }
        return Post(headers, body)

    def forge(self, post: Post) -> Post:
        """Name another recipient."""
        return _with_other_recipients(post)


def _with_other_recipients(post: Post) -> Post:
    return Post(post.headers, post.body.replace(HONEST_DOMAIN, FORGED_DOMAIN))


def _hmac_hex(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, sha256).hexdigest()


def _basic(user_and_password: str) -> str:
    return "Basic " + b64encode(user_and_password.encode()).decode()


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
