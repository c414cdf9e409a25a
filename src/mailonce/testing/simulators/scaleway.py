"""Scaleway speaks as SNS does, with certificates of its own: the source pins their CA."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, Words, waits_s
from mailonce.testing.sns import SnsSimulator

VALID = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC))


class Scaleway(SnsSimulator):
    """The receiver must be able to fetch what `certificates` has."""

    name = "scaleway"
    topic = "arn:scw:sns:fr-par:project-0f3a:mailonce-test"
    certificate_url = "https://messaging.s3.fr-par.scw.cloud/fr-par/sns/sns_certificate_test.pem"
    # Undocumented, as is which answers end the retries.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(2, 6))
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"type": "email_delivered", "email_response_code": 250},
        EventType.DEFERRED: {"type": "email_deferred", "email_response_code": 421},
        EventType.BOUNCED: {"type": "email_mailbox_not_found", "email_response_code": 550},
    }

    @property
    def certificates(self) -> Mapping[str, bytes]:
        """The certificate that signs, which the CA has issued."""
        by = self.keys.rsa("ca")
        issued = _certificate("signer", self.keys.rsa().public_key(), by=by, ca=False)
        return {self.certificate_url: issued}

    def settings(self) -> dict[str, Any]:
        """Pin the topic and the CA."""
        key = self.keys.rsa("ca")
        authority = _certificate("test CA", key.public_key(), by=key, ca=True).decode()
        return {"provider": self.provider, "topic_arns": [self.topic], "public_key": authority}

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "id": one.id,
            "email_id": one.message_id,
            "email_to": one.recipient,
            "created_at": iso(one.occurred_s),
            **self.words[one.type],
            **one.details,
        }


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
