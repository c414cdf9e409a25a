"""Postal: https://docs.postalserver.io/developer/api."""

from base64 import b64decode
from collections.abc import Mapping
from email import message_from_bytes, policy
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakePostal(Fake):
    """Answers 200 whatever happens; the status is in the body."""

    name = "postal"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-server-api-key") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/api/v1/send/raw"):
            return None
        body = json_body(request)
        message = message_from_bytes(b64decode(body["data"]), policy=policy.default)
        message_id = str(message["message-id"]).strip("<>")
        return FakeMail(
            recipient=body["rcpt_to"][0],
            subject=str(message["subject"]),
            marks={"tag": message["x-postal-tag"], "message_id": message_id},
            message_id=f"<{message_id}>",
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        row = {message.mail.recipient: {"id": int(message.id), "token": "t"}}
        data = {"message_id": message.mail.message_id.strip("<>"), "messages": row}
        return json_reply({"status": "success", "time": 0.01, "flags": {}, "data": data})

    def refused(self, status: int, reason: str) -> FakeReply:
        codes = {401: "InvalidServerAPIKey", 422: "NoContent"}
        error = {"code": codes.get(status, "InternalError"), "message": reason}
        return json_reply({"status": "error", "data": error}, 200 if status in codes else status)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {name: value for name, value in message.mail.marks.items() if value}


FAKE = FakePostal
