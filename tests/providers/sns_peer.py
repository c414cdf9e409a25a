"""The other side of SNS: makes certificates and signs envelopes, without any code of ours."""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
TOPIC = "arn:aws:sns:eu-west-1:111122223333:ses-events"
CERT_URL = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"
CONFIRM_URL = (
    "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"
    f"&TopicArn={TOPIC}&Token=2336412f37fb687f"
)


@dataclass(frozen=True)
class Signer:
    key: rsa.RSAPrivateKey
    certificate: bytes
    public_key: bytes

    def sign(self, fields: dict[str, Any], version: str = "2") -> dict[str, Any]:
        if fields["Type"] == "Notification":
            names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
        else:
            names = [
                "Message",
                "MessageId",
                "SubscribeURL",
                "Timestamp",
                "Token",
                "TopicArn",
                "Type",
            ]
        text = "".join(f"{n}\n{fields[n]}\n" for n in names if fields.get(n) is not None)
        hash_ = hashes.SHA1() if version == "1" else hashes.SHA256()
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hash_)
        return {
            **fields,
            "SignatureVersion": version,
            "Signature": base64.b64encode(signature).decode(),
        }


@cache
def signer(name: str = "amazon", *, days_from: int = -30, days_to: int = 30) -> Signer:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"sns.{name}.test")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=days_from))
        .not_valid_after(NOW + timedelta(days=days_to))
        .sign(key, hashes.SHA256())
    )
    return Signer(
        key,
        certificate.public_bytes(Encoding.PEM),
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    )


@cache
def authority(name: str, *, by: Signer | None = None, ca: bool = True, days_to: int = 30) -> Signer:
    """Make a CA, a root or one that another issued; without `ca`, one that only looks like it."""
    return _issue(f"{name} CA", by=by, ca=ca, days_to=days_to)


@cache
def issued(by: Signer, name: str = "leaf", *, days_from: int = -30, days_to: int = 30) -> Signer:
    """Make a signing certificate that a CA issued."""
    return _issue(name, by=by, ca=False, days_from=days_from, days_to=days_to)


def _issue(
    name: str, *, by: Signer | None, ca: bool, days_from: int = -30, days_to: int = 30
) -> Signer:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = x509.load_pem_x509_certificate(by.certificate).subject if by else subject
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=days_from))
        .not_valid_after(NOW + timedelta(days=days_to))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(by.key if by else key, hashes.SHA256())
    )
    return Signer(
        key,
        certificate.public_bytes(Encoding.PEM),
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    )


def notification(message: Any, **changes: Any) -> dict[str, Any]:
    text = message if isinstance(message, str) else json.dumps(message) + "\n"
    return {
        "Type": "Notification",
        "MessageId": "0b0a-1",
        "TopicArn": TOPIC,
        "Message": text,
        "Timestamp": "2026-01-01T00:00:06.000Z",
        "SigningCertURL": CERT_URL,
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
        **changes,
    }


def handshake(type_: str = "SubscriptionConfirmation", **changes: Any) -> dict[str, Any]:
    return {
        "Type": type_,
        "MessageId": "0b0a-2",
        "TopicArn": TOPIC,
        "Message": "You have chosen to subscribe to the topic.",
        "SubscribeURL": CONFIRM_URL,
        "Token": "2336412f37fb687f",
        "Timestamp": "2026-01-01T00:00:06.000Z",
        "SigningCertURL": CERT_URL,
        **changes,
    }
