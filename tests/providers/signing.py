"""Sign as the providers do, so that tests can play them.

To add a provider: a pure function that signs, one that attaches the signature to a request, and a
row in SCHEMES.
"""

import hmac
import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import md5, sha256
from typing import Any
from urllib.parse import parse_qsl

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.source import Source
from tests.providers.cases import arrival_of, source_of

TOKEN = "a" * 50
MANDRILL_URL = "https://u:p@h.example/m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way of signing. `timestamp` is '' where the scheme has none."""

    name: str
    provider: str
    body: bytes
    signature: Callable[[str, bytes, str], str]
    attach: Callable[[bytes, str, str], Arrival]
    source: Callable[..., Source]
    timestamped: bool = True
    covers_body: bool = True

    def __str__(self) -> str:
        return self.name

    def arrive(self, secret: str, timestamp: str, *, body: bytes | None = None) -> Arrival:
        """Sign a body by that secret, and post it."""
        posted = self.body if body is None else body
        return self.attach(posted, timestamp, self.signature(secret, posted, timestamp))


def sendgrid_key(name: str) -> ec.EllipticCurvePrivateKey:
    """Derive a private key from a name."""
    return ec.derive_private_key(
        int.from_bytes(sha256(name.encode()).digest()) >> 1, ec.SECP256R1()
    )


@cache
def sendgrid_public_key(name: str) -> str:
    """Show the public key as SendGrid's settings page does."""
    der = (
        sendgrid_key(name)
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
    return b64encode(der).decode()


def sign_sendgrid(secret: str, body: bytes, timestamp: str) -> str:
    signed = timestamp.encode() + body
    return b64encode(sendgrid_key(secret).sign(signed, ec.ECDSA(SHA256()))).decode()


def sign_mailgun(secret: str, body: bytes, timestamp: str, token: str = TOKEN) -> str:
    del body
    return _hex(secret, (timestamp + token).encode())


def sign_timed(secret: str, body: bytes, timestamp: str) -> str:
    return _hex(secret, timestamp.encode() + b"." + body)


def sign_sesmetric_body(secret: str, body: bytes, timestamp: str) -> str:
    del timestamp
    return "sha256=" + _hex(secret, body)


def sign_customerio(secret: str, body: bytes, timestamp: str) -> str:
    return _hex(secret, b"v0:" + timestamp.encode() + b":" + body)


def sign_mailwebhook(secret: str, body: bytes, timestamp: str) -> str:
    return _base64(secret.encode(), timestamp.encode() + b"." + body)


def standard_secret(name: str) -> str:
    """Derive a secret from a name, as Standard Webhooks write it."""
    return "whsec_" + b64encode(sha256(name.encode()).digest()).decode()


def sign_standard(secret: str, body: bytes, timestamp: str, id_: str = "msg_1") -> str:
    return _base64(sha256(secret.encode()).digest(), f"{id_}.{timestamp}.".encode() + body)


def sign_resend(secret: str, body: bytes, timestamp: str) -> str:
    signed = f"msg_1.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(secret.encode(), signed, "sha256")).decode()


def sign_mandrill(secret: str, body: bytes, timestamp: str) -> str:
    del timestamp
    signed = MANDRILL_URL + "".join(name + value for name, value in parse_qsl(body.decode()))
    return b64encode(hmac.digest(secret.encode(), signed.encode(), "sha1")).decode()


def sign_body(secret: str, body: bytes, timestamp: str) -> str:
    del timestamp
    return _hex(secret, body)


@cache
def postal_key(name: str) -> rsa.RSAPrivateKey:
    """Make up the key of an installation."""
    del name
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def postal_public_key(name: str) -> str:
    """Show the public key as the `p=` of `postal default-dkim-record` does."""
    public_key = postal_key(name).public_key()
    der = public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(der).decode()


def sign_postal(secret: str, body: bytes, timestamp: str) -> str:
    del timestamp
    return b64encode(postal_key(secret).sign(body, padding.PKCS1v15(), SHA256())).decode()


def sign_postal_sha1(secret: str, body: bytes, timestamp: str) -> str:
    del timestamp
    return b64encode(postal_key(secret).sign(body, padding.PKCS1v15(), SHA1())).decode()


def sign_unisendergo(secret: str, body: bytes, timestamp: str) -> str:
    """Digest the body as it would be with the secret for its first field."""
    del timestamp
    signed = b'{"auth":' + json.dumps(secret).encode() + b"," + body.removeprefix(b"{")
    return md5(signed, usedforsecurity=False).hexdigest()


def attach_sendgrid(body: bytes, timestamp: str, signature: str) -> Arrival:
    return arrival_of(
        body,
        {
            "X-Twilio-Email-Event-Webhook-Timestamp": timestamp,
            "X-Twilio-Email-Event-Webhook-Signature": signature,
        },
    )


def attach_mailgun(body: bytes, timestamp: str, signature: str) -> Arrival:
    """Put the signature where it is posted: beside the event, in the body."""
    given = {"timestamp": timestamp, "token": TOKEN, "signature": signature}
    return arrival_of(json.dumps({"signature": given, "event-data": json.loads(body)}).encode())


def attach_sesmetric(body: bytes, timestamp: str, signature: str) -> Arrival:
    return arrival_of(
        body, {"X-SESMetric-Timestamp": timestamp, "X-SESMetric-Signature": signature}
    )


def attach_sesmetric_body(body: bytes, timestamp: str, signature: str) -> Arrival:
    del timestamp
    return arrival_of(body, {"X-SM-Signature": signature})


def attach_customerio(body: bytes, timestamp: str, signature: str) -> Arrival:
    return arrival_of(body, {"X-CIO-Timestamp": timestamp, "X-CIO-Signature": signature})


def attach_mailwebhook(body: bytes, timestamp: str, signature: str) -> Arrival:
    value = f"t={timestamp}, kid=kid_1, v1={signature}"
    return arrival_of(body, {"X-MailWebhook-Signature": value, "X-Idempotency-Key": "k1"})


def attach_standard(body: bytes, timestamp: str, signature: str, id_: str = "msg_1") -> Arrival:
    return arrival_of(
        body,
        {
            "webhook-id": id_,
            "webhook-timestamp": timestamp,
            "webhook-signature": f"v1,{signature}",
        },
    )


def attach_resend(body: bytes, timestamp: str, signature: str) -> Arrival:
    return arrival_of(
        body,
        {"Svix-Id": "msg_1", "Svix-Timestamp": timestamp, "Svix-Signature": signature},
    )


def attach_mandrill(body: bytes, timestamp: str, signature: str) -> Arrival:
    del timestamp
    form = "application/x-www-form-urlencoded"
    return arrival_of(body, {"Content-Type": form, "X-Mandrill-Signature": signature})


def attach_mailersend(body: bytes, timestamp: str, signature: str) -> Arrival:
    del timestamp
    return arrival_of(body, {"Signature": signature})


def attach_mailtrap(body: bytes, timestamp: str, signature: str) -> Arrival:
    del timestamp
    return arrival_of(body, {"Mailtrap-Signature": signature})


def attach_emailit(body: bytes, timestamp: str, signature: str) -> Arrival:
    return arrival_of(body, {"X-Emailit-Timestamp": timestamp, "X-Emailit-Signature": signature})


def attach_postal(body: bytes, timestamp: str, signature: str) -> Arrival:
    del timestamp
    return arrival_of(body, {"X-Postal-Signature-256": signature, "X-Postal-Signature": "AAAA"})


def attach_postal_sha1(body: bytes, timestamp: str, signature: str) -> Arrival:
    del timestamp
    return arrival_of(body, {"X-Postal-Signature": signature})


def attach_unisendergo(body: bytes, timestamp: str, signature: str) -> Arrival:
    """Put the signature where it is posted: first in the body."""
    del timestamp
    auth = b'{"auth":' + json.dumps(signature).encode() + b","
    return arrival_of(auth + body.removeprefix(b"{"))


def _hex(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, sha256).hexdigest()


def _base64(secret: bytes, signed: bytes) -> str:
    return b64encode(hmac.new(secret, signed, sha256).digest()).decode()


def _sendgrid_source(*secrets: str, **settings: Any) -> Source:
    public_keys = tuple(map(sendgrid_public_key, secrets))
    return source_of("sendgrid", public_keys=public_keys, **settings)


def _standard_source(provider: str, *secrets: str, **settings: Any) -> Source:
    return source_of(provider, secrets=tuple(map(standard_secret, secrets)), **settings)


def _resend_source(*secrets: str, **settings: Any) -> Source:
    encoded = tuple("whsec_" + b64encode(secret.encode()).decode() for secret in secrets)
    return source_of("resend", secrets=encoded, **settings)


def _postal_source(*secrets: str, **settings: Any) -> Source:
    return source_of("postal", public_keys=tuple(map(postal_public_key, secrets)), **settings)


SCHEMES = [
    Scheme(
        name="sendgrid",
        provider="sendgrid",
        body=b'[{"event":"processed","email":"ann@example.net","sg_message_id":"m1"}]\r\n',
        signature=sign_sendgrid,
        attach=attach_sendgrid,
        source=_sendgrid_source,
    ),
    Scheme(
        name="mailgun",
        provider="mailgun",
        body=b'{"event":"delivered","id":"e1","timestamp":1767225600.5}',
        signature=sign_mailgun,
        attach=attach_mailgun,
        source=lambda *secrets, **settings: source_of("mailgun", secrets=secrets, **settings),
        covers_body=False,
    ),
    Scheme(
        name="sesmetric",
        provider="sesmetric",
        body=b'{"id":"evt_1","type":"delivered","message_id":"m1"}',
        signature=sign_timed,
        attach=attach_sesmetric,
        source=lambda *secrets, **settings: source_of("sesmetric", secrets=secrets, **settings),
    ),
    Scheme(
        name="sesmetric-body",
        provider="sesmetric",
        body=b'{"event_type":"delivery","payload":{"messageId":"m1"}}',
        signature=sign_sesmetric_body,
        attach=attach_sesmetric_body,
        source=lambda *secrets, **settings: source_of(
            "sesmetric", secrets=secrets, options={"form": "body"}, **settings
        ),
        timestamped=False,
    ),
    Scheme(
        name="customerio",
        provider="customerio",
        body=b'{"event_id":"e1","object_type":"email","metric":"sent","data":{}}',
        signature=sign_customerio,
        attach=attach_customerio,
        source=lambda *secrets, **settings: source_of("customerio", secrets=secrets, **settings),
    ),
    Scheme(
        name="mailwebhook",
        provider="mailwebhook",
        body=b'{"schema":{"name":"mailwebhook.generic","version":"1"}}',
        signature=sign_mailwebhook,
        attach=attach_mailwebhook,
        source=lambda *secrets, **settings: source_of("mailwebhook", secrets=secrets, **settings),
    ),
    Scheme(
        name="loops",
        provider="loops",
        body=b'{"eventName":"email.delivered","email":{"id":"e1"}}',
        signature=sign_standard,
        attach=attach_standard,
        source=lambda *secrets, **settings: _standard_source("loops", *secrets, **settings),
    ),
    Scheme(
        name="mailonce",
        provider="mailonce",
        body=b'{"type":"delivered","message_id":"m1"}',
        signature=sign_standard,
        attach=attach_standard,
        source=lambda *secrets, **settings: _standard_source("mailonce", *secrets, **settings),
    ),
    Scheme(
        name="resend",
        provider="resend",
        body=b'{"type":"email.delivered","data":{"email_id":"e1"}}',
        signature=sign_resend,
        attach=attach_resend,
        source=_resend_source,
    ),
    Scheme(
        name="mandrill",
        provider="mandrill",
        body=b"mandrill_events=%5B%7B%22event%22%3A%22send%22%2C%22_id%22%3A%22m1%22%7D%5D",
        signature=sign_mandrill,
        attach=attach_mandrill,
        source=lambda *secrets, **settings: source_of(
            "mandrill", secrets=secrets, options={"url": MANDRILL_URL}, **settings
        ),
        timestamped=False,
    ),
    Scheme(
        name="mailtrap",
        provider="mailtrap",
        body=b'{"events":[{"event":"delivery","event_id":"e1","email":"ann@example.net"}]}',
        signature=sign_body,
        attach=attach_mailtrap,
        source=lambda *secrets, **settings: source_of("mailtrap", secrets=secrets, **settings),
        timestamped=False,
    ),
    Scheme(
        name="emailit",
        provider="emailit",
        body=b'[{"event_id":"evt_1","type":"email.delivered","data":{"object":{"id":"em_1"}}}]',
        signature=sign_timed,
        attach=attach_emailit,
        source=lambda *secrets, **settings: source_of("emailit", secrets=secrets, **settings),
    ),
    Scheme(
        name="postal",
        provider="postal",
        body=b'{"event":"MessageSent","payload":{"message":{"id":1}},"uuid":"u1"}',
        signature=sign_postal,
        attach=attach_postal,
        source=_postal_source,
        timestamped=False,
    ),
    Scheme(
        name="postal-sha1",
        provider="postal",
        body=b'{"event":"MessageSent","payload":{"message":{"id":1}},"uuid":"u1"}',
        signature=sign_postal_sha1,
        attach=attach_postal_sha1,
        source=lambda *secrets, **settings: _postal_source(
            *secrets, options={"signature": "sha1"}, **settings
        ),
        timestamped=False,
    ),
    Scheme(
        name="mailersend",
        provider="mailersend",
        body=b'{"type":"activity.sent","data":{"id":"e1","url":"https:\\/\\/example.com"}}',
        signature=sign_body,
        attach=attach_mailersend,
        source=lambda *secrets, **settings: source_of("mailersend", secrets=secrets, **settings),
        timestamped=False,
    ),
    Scheme(
        name="unisendergo",
        provider="unisendergo",
        body=b'{"events_by_user":[{"user_id":456,"events":[]}]}',
        signature=sign_unisendergo,
        attach=attach_unisendergo,
        source=lambda *secrets, **settings: source_of("unisendergo", secrets=secrets, **settings),
        timestamped=False,
    ),
]
