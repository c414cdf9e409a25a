"""Amazon SES v2: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html."""

import re
from base64 import b64decode
from collections.abc import Mapping
from email import message_from_bytes, policy
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest

_PROOF = re.compile(
    r"AWS4-HMAC-SHA256 Credential=AKIDFAKE/\d{8}/eu-west-1/ses/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}"
)


class FakeSes(Fake):
    """Looks at the form of a signature only; its errors have their name in a header."""

    name = "ses"

    def sender_settings(self) -> dict[str, Any]:
        """Give an access key and its secret."""
        login = {"username": "AKIDFAKE", "password": self.secret, "region": "eu-west-1"}
        return {"provider": self.name, "endpoint": self.url, **login}

    def is_authorized(self, request: FakeRequest) -> bool:
        return _PROOF.fullmatch(request.headers.get("authorization", "")) is not None

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v2/email/outbound-emails"):
            return None
        body = json_body(request)
        raw = b64decode(body["Content"]["Raw"]["Data"])
        message = message_from_bytes(raw, policy=policy.default)
        headers = [{"name": name, "value": str(value)} for name, value in message.items()]
        tags = {one["Name"]: [one["Value"]] for one in body.get("EmailTags", [])}
        return FakeMail(
            recipient=body["Destination"]["ToAddresses"][0],
            subject=str(message["subject"]),
            marks={"tags": tags, "headers": headers},
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"MessageId": message.id})

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {
            401: (403, "UnrecognizedClientException"),
            404: (404, "NotFoundException"),
            422: (400, "MessageRejected"),
            429: (429, "TooManyRequestsException"),
        }
        code, name = names.get(status, (status, "InternalFailure"))
        return json_reply({"message": reason}, code, {"x-amzn-ErrorType": name})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)


FAKE = FakeSes
