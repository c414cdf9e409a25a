"""Signed requests, built before the clock starts."""

import hmac
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
)

SECRET = "a secret that both receivers know"
ADMIN_KEY = "admin key of a benchmark"
ARRAY_EVENTS = 500
# The same in every run: an event sent again must have the same content.
EVENT_TIME_S = 1_760_000_000

Build = Callable[[str, int, int], list[bytes]]


def single_events(path: str, first: int, count: int) -> list[bytes]:
    """Build POSTs of one SESMetric event each, in its signed form; numbers make them unique."""
    secret, now = SECRET.encode(), str(int(time.time()))
    head = _head(path) + f"x-sesmetric-timestamp: {now}\r\nx-sesmetric-signature: "
    found = []
    for number in range(first, first + count):
        body = (
            f'{{"id":"evt_{number:012d}","type":"delivery","message_id":"<{number:012d}.7c1e@mail.'
            f'example.com>","recipient":"customer-{number}@example.net","timestamp":{EVENT_TIME_S},'
            '"subject":"Your receipt","smtp_response":"250 2.0.0 OK 1731708000 a1-20020a05 - gsmtp"'
            ',"tags":["receipt"],"metadata":{"order":"A-1009"}}'
        ).encode()
        signature = hmac.digest(secret, now.encode() + b"." + body, "sha256").hex()
        found.append(f"{head}{signature}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return found


def keyed(path: str, first: int, count: int) -> list[bytes]:
    """Build POSTs of one small event each, with a key of its own under both header names."""
    found = []
    for number in range(first, first + count):
        body = f'{{"subject":"Receipt {number:012d}","sender":"ann@example.net"}}'.encode()
        head = (
            f"{_head(path)}x-idempotency-key: key-{number:012d}\r\n"
            f"idempotency-key: key-{number:012d}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        found.append(head.encode() + body)
    return found


def mails(path: str, first: int, count: int) -> list[bytes]:
    """Build POSTs of one mail to send each, with a key of its own."""
    words = "Thank you for your order. " * 20
    found = []
    for number in range(first, first + count):
        body = (
            f'{{"to":"customer-{number}@example.net","from":"Shop <shop@example.com>",'
            f'"subject":"Your receipt","text":"{words}"}}'
        ).encode()
        head = (
            f"{_head(path)}authorization: Bearer {ADMIN_KEY}\r\n"
            f"idempotency-key: order-{number:012d}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        found.append(head.encode() + body)
    return found


def arrays(path: str, first: int, count: int) -> list[bytes]:
    """Build POSTs of 500 SendGrid events each: 40 % delivered, 40 % opened or clicked, 15 %
    deferred, 5 % hard; engagement is with messages of earlier arrays."""
    key, now = signing_key(), str(int(time.time()))
    found = []
    for array in range(first, first + count):
        numbers = range(array * ARRAY_EVENTS, (array + 1) * ARRAY_EVENTS)
        body = orjson.dumps([_sendgrid_event(number) for number in numbers])
        signature = b64encode(key.sign(now.encode() + body, ec.ECDSA(SHA256()))).decode()
        head = (
            f"{_head(path)}x-twilio-email-event-webhook-timestamp: {now}\r\n"
            f"x-twilio-email-event-webhook-signature: {signature}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        found.append(head.encode() + body)
    return found


def signing_key() -> ec.EllipticCurvePrivateKey:
    """Give the one key pair of the benchmark, the same in every process."""
    return ec.derive_private_key(int.from_bytes(SECRET.encode()[:31], "big"), ec.SECP256R1())


def public_key() -> str:
    """Write the public key as SendGrid shows it."""
    der = signing_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(der).decode()


BUILDERS: dict[str, Build] = {
    "single": single_events,
    "array": arrays,
    "gate": keyed,
    "send": mails,
}


def _head(path: str) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: benchmark\r\naccept: */*\r\n"
        "content-type: application/json\r\n"
    )


def _sendgrid_event(number: int) -> dict[str, Any]:
    kind = number % 20
    # The message of an engagement was delivered two arrays ago.
    message = number - 8 - 2 * ARRAY_EVENTS if 8 <= kind < 16 else number
    event: dict[str, Any] = {
        "email": f"customer-{message}@example.net",
        "timestamp": EVENT_TIME_S + number % 60,
        "smtp-id": f"<{message:012d}@geopod-ismtpd-1>",
        "sg_event_id": f"ZGVsaXZlcmVkLTAtMTIz{number:012d}",
        "sg_message_id": f"14c5d75ce93.dfd.{message:012d}.filter0001.16648.5515E0B88.0",
        "category": ["receipt"],
    }
    if kind < 8:
        return event | {"event": "delivered", "response": "250 OK", "tls": 1}
    if kind < 16:
        event |= {"useragent": "Mozilla/5.0 (Macintosh)", "ip": "203.0.113.7"}
        if kind % 2:
            return event | {"event": "click", "url": "https://example.com/receipt"}
        return event | {"event": "open", "sg_machine_open": False}
    if kind < 19:
        return event | {"event": "deferred", "response": "400 try again later", "attempt": "5"}
    return event | {"event": "bounce", "type": "bounce", "status": "5.1.1", "reason": "500 unknown"}
