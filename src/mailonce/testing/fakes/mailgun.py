"""Mailgun: https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages."""

from base64 import b64encode
from collections.abc import Mapping
from email import message_from_bytes, policy
from email.message import Message
from typing import Any, ClassVar

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest

DOMAIN = "mg.example.com"


class FakeMailgun(Fake):
    """Takes a form with a message; greets whoever comes to another path with a 200."""

    name = "mailgun"
    settings: ClassVar[Mapping[str, Any]] = {"domain": DOMAIN}

    def is_authorized(self, request: FakeRequest) -> bool:
        token = b64encode(f"api:{self.secret}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {token}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", f"/v3/{DOMAIN}/messages.mime"):
            return None
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        fields: dict[str, str] = {}
        message: Message | None = None
        for part in message_from_bytes(head + request.body).get_payload():
            assert isinstance(part, Message), "a form has parts"
            name = str(part.get_param("name", header="content-disposition"))
            if name == "message":
                raw = request.body.partition(b"Content-Type: message/rfc822\r\n\r\n")[2]
                message = message_from_bytes(raw, policy=policy.default)
            else:
                fields[name] = str(part.get_payload())
        assert message is not None, "a form has a message"
        variables = {
            name.removeprefix("v:"): value
            for name, value in fields.items()
            if name.startswith("v:")
        }
        return FakeMail(
            recipient=fields["to"],
            subject=str(message["subject"]),
            marks={"user-variables": variables},
            message_id=str(message["message-id"]),
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"id": message.mail.message_id, "message": "Queued. Thank you."})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"message": reason}, 400 if status == 422 else status)

    def refused_in_success(self) -> FakeReply:
        return FakeReply(200, b"Mailgun Magnificent API", {"Content-Type": "text/plain"})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        headers = {"message-id": message.mail.message_id.strip("<>")}
        return {**message.mail.marks, "message": {"headers": headers}}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search events by Message-ID."""
        if (request.method, request.path) != ("GET", f"/v3/{DOMAIN}/events"):
            return None
        wanted = request.query.get("message-id")
        items = [
            {"event": "accepted", **self.details(one)}
            for one in self.listed()
            if one.mail.message_id.strip("<>") == wanted
        ]
        return json_reply({"items": items, "paging": {}})


FAKE = FakeMailgun
