"""Mailtrap: https://docs.mailtrap.io/developers/email-sending."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeMailtrap(Fake):
    """Its email logs show the variables that a mail was sent with."""

    name = "mailtrap"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/api/send"):
            return None
        body = json_body(request)
        names = ("custom_variables", "category")
        return FakeMail(
            recipient=body["to"][0]["email"],
            subject=body["subject"],
            marks={name: body[name] for name in names if name in body},
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"success": True, "message_ids": [message.id]})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"success": False, "errors": [reason]}, status)

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        errors = ["'to' address other@example.net is suppressed"]
        return json_reply({"success": True, "message_ids": [message.id], "errors": errors})

    def refused_in_success(self) -> FakeReply:
        return json_reply({"success": False, "errors": ["refused"]})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """List mail by recipient."""
        if (request.method, request.path) != ("GET", "/api/email_logs"):
            return None
        items = [
            {"message_id": one.id, "to": one.mail.recipient, **one.mail.marks}
            for one in self.listed()
            if one.mail.recipient == request.query.get("filters[to][value]")
        ]
        return json_reply({"messages": items, "next_page_cursor": None})


FAKE = FakeMailtrap
