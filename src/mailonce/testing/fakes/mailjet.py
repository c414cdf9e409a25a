"""Mailjet: https://dev.mailjet.com/email/guides/send-api-v31/."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest

ERROR = {"ErrorCode": "mj-0013", "StatusCode": 400, "ErrorMessage": "invalid"}


class FakeMailjet(Fake):
    """Has a status for each message; messages can be searched by CustomID."""

    name = "mailjet"

    def sender_settings(self) -> dict[str, Any]:
        """Give a key and its secret, by which Mailjet logs a caller in."""
        login = {"username": "key", "password": self.secret}
        return {"provider": self.name, "endpoint": self.url, **login}

    def is_authorized(self, request: FakeRequest) -> bool:
        token = b64encode(f"key:{self.secret}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {token}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v3.1/send"):
            return None
        (message,) = json_body(request)["Messages"]
        return FakeMail(
            recipient=message["To"][0]["Email"],
            subject=message["Subject"],
            marks={"CustomID": message.get("CustomID", ""), "Payload": message.get("EventPayload")},
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        to = {"Email": message.mail.recipient, "MessageID": int(message.id)}
        return json_reply({"Messages": [{"Status": "success", "To": [to]}]})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"ErrorMessage": reason, "StatusCode": status}, status)

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        """Its status is that of the worst."""
        to = {"Email": message.mail.recipient, "MessageID": int(message.id)}
        ours = {"Status": "success", "To": [to]}
        return json_reply({"Messages": [ours, {"Status": "error", "Errors": [ERROR]}]}, 400)

    def refused_in_success(self) -> FakeReply:
        return json_reply({"Messages": [{"Status": "error", "Errors": [ERROR]}]})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {name: value for name, value in message.mail.marks.items() if value}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Find messages by CustomID."""
        if (request.method, request.path) != ("GET", "/v3/REST/message"):
            return None
        wanted = request.query.get("CustomID")
        items = [
            {"ID": int(one.id), "CustomID": wanted}
            for one in self.listed()
            if one.mail.marks["CustomID"] == wanted
        ]
        return json_reply({"Count": len(items), "Data": items, "Total": len(items)})


FAKE = FakeMailjet
