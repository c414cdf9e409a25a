"""Mailtrap: https://docs.mailtrap.io/developers/email-sending."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeMailtrap(Fake):
    """Its email logs show the variables that a mail was sent with."""

    name = "mailtrap"
    known_calls = ("POST /api/send", "GET /api/email_logs")
    invalid_status = 400
    has_id_per_recipient = True

    def is_authorized(self, request: FakeRequest) -> bool:
        bearer = request.headers.get("authorization") == f"Bearer {self.secret}"
        return bearer or request.headers.get("api-token") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /api/send":
            return None
        body = json_fields(request)
        body.person("from")
        recipients = need_recipients(body.people("to", "cc", "bcc"), "to", most=1000)
        if not body.has("template_uuid"):
            body.need_text("subject")
            body.need_content("text", "html")
        marks = {
            "custom_variables": body.mapping("custom_variables"),
            "category": body.text("category"),
        }
        return to_each(
            recipients,
            subject=body.text("subject"),
            marks={name: value for name, value in marks.items() if value},
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply(_success(messages))

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"success": False, "errors": [reason]}, status)

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        errors = ["'to' address other@example.net is suppressed"]
        return json_reply({**_success(messages), "errors": errors})

    def refused_in_success(self) -> FakeReply:
        return json_reply({"success": False, "errors": ["refused"]})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """List mail by recipient."""
        if request.call != "GET /api/email_logs":
            return None
        items = [
            {"message_id": one.id, "to": one.mail.recipient, **one.mail.marks}
            for one in self.listed()
            if one.mail.recipient == request.query.get("filters[to][value]")
        ]
        return json_reply({"messages": items, "next_page_cursor": None})


def _success(messages: Sequence[FakeMessage]) -> dict[str, Any]:
    return {"success": True, "message_ids": [message.id for message in messages]}


FAKE = FakeMailtrap
