"""What SNS and its like post: envelopes signed with RSA, the same ones on each attempt."""

import secrets
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

import orjson
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256

from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, Post, Simulator, damaged, final_codes

SIGNED = ("Message", "MessageId", "Timestamp", "TopicArn", "Type")


class SnsSimulator(Simulator):
    """Posts one event at a time; each envelope has an id of its own."""

    topic: ClassVar[str]
    certificate_url: ClassVar[str]
    content_type = "text/plain; charset=UTF-8"
    signs_time = True
    # SNS takes any 4xx for an answer, too.
    final = final_codes(again=())

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Put one event into an envelope."""
        return self.envelope(self.body(happenings), now_s=now_s)

    def envelope(self, message: bytes, *, now_s: int) -> Post:
        """Put a message into an envelope, and sign that in version 2."""
        fields = {
            "Type": "Notification",
            "MessageId": secrets.token_hex(16),
            "TopicArn": self.topic,
            "Message": message.decode(),
            "Timestamp": iso(now_s),
            "SignatureVersion": "2",
            "SigningCertURL": self.certificate_url,
        }
        signed = "".join(f"{name}\n{fields[name]}\n" for name in SIGNED).encode()
        signature = self.keys.rsa().sign(signed, padding.PKCS1v15(), SHA256())
        headers = {
            "Content-Type": self.content_type,
            "x-amz-sns-message-type": fields["Type"],
            "x-amz-sns-message-id": fields["MessageId"],
            "x-amz-sns-topic-arn": self.topic,
        }
        return Post(headers, orjson.dumps({**fields, "Signature": b64encode(signature).decode()}))

    def damage(self, post: Post, rng: Random) -> Post:
        """Damage what is signed: the envelope has fields that are not, and mean nothing."""
        text = post.body.decode()
        start, end = text.index('"Message":"') + 11, text.index('","Timestamp"')
        return replace(post, body=damaged(text, rng, start=start, end=end).encode())
