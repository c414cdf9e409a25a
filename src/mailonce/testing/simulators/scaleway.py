"""Scaleway speaks as SNS does, with certificates of its own: the source pins their CA."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso, sns_signature
from mailonce.testing.simulator import Happening, Post, Simulator, damaged, is_final, waits_s

TOPIC = "arn:scw:sns:fr-par:project-0f3a:mailonce-test"
CERTIFICATE_URL = "https://messaging.s3.fr-par.scw.cloud/fr-par/sns/sns_certificate_test.pem"
VALID = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC))

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"type": "email_delivered", "email_response_code": 250},
    EventType.DEFERRED: {"type": "email_deferred", "email_response_code": 421},
    EventType.BOUNCED: {"type": "email_mailbox_not_found", "email_response_code": 550},
}


class Scaleway(Simulator):
    """The receiver must be able to fetch what `certificates` has."""

    name = "scaleway"
    signs_time = True
    # Undocumented.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(2, 6))
    words = WORDS

    @property
    def certificates(self) -> Mapping[str, bytes]:
        """The certificate that signs, which the CA has issued."""
        by = self.keys.rsa("ca")
        issued = _certificate("signer", self.keys.rsa().public_key(), by=by, ca=False)
        return {CERTIFICATE_URL: issued}

    def settings(self) -> dict[str, Any]:
        """Pin the topic and the CA."""
        key = self.keys.rsa("ca")
        authority = _certificate("test CA", key.public_key(), by=key, ca=True).decode()
        return {"provider": self.provider, "topic_arns": [TOPIC], "public_key": authority}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event in an envelope; each envelope has an id of its own."""
        (happening,) = happenings
        event = {
            "id": happening.id,
            "email_id": happening.message_id,
            "email_to": happening.recipient,
            "created_at": iso(happening.occurred_s),
            **self.words[happening.type],
        }
        fields = {
            "Type": "Notification",
            "MessageId": secrets.token_hex(16),
            "TopicArn": TOPIC,
            "Message": orjson.dumps(event).decode(),
            "Timestamp": iso(now_s),
            "SignatureVersion": "2",
            "SigningCertURL": CERTIFICATE_URL,
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
        """Undocumented; what copies SNS may take any 4xx for an answer, too."""
        return is_final(code, again=frozenset())

    def damage(self, post: Post, rng: Random) -> Post:
        """Damage what is signed: the envelope has fields that are not, and mean nothing."""
        text = post.body.decode()
        start, end = text.index('"Message":"') + 11, text.index('","Timestamp"')
        return replace(post, body=damaged(text, rng, start=start, end=end).encode())


def _certificate(name: str, key: RSAPublicKey, *, by: RSAPrivateKey, ca: bool) -> bytes:
    """Issue a certificate, the same for the same keys."""
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, "test CA")
    )
    builder = x509.CertificateBuilder(issuer, subject, key, 1 + ca, *VALID)
    extension = x509.BasicConstraints(ca=ca, path_length=None)
    signed = builder.add_extension(extension, critical=True).sign(by, SHA256())
    return signed.public_bytes(Encoding.PEM)


SIMULATOR = Scaleway
