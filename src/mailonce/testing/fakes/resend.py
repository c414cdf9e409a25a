"""Resend: https://resend.com/docs/api-reference/emails/send-email."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeResend(Fake):
    """Knows an idempotency key for a day, and compares what is sent under it."""

    name = "resend"
    known_calls = ("POST /emails",)

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /emails":
            return None
        body = json_fields(request)
        body.address("from")
        recipients = [
            *need_recipients(body.addresses("to"), "to", most=50),
            *body.addresses("cc", "bcc"),
        ]
        # A template can have a subject of its own.
        if not body.has("template"):
            body.need_text("subject")
            body.need_content("html", "text")
        return to_each(
            recipients,
            subject=body.text("subject"),
            marks={one.need_text("name"): one.text("value") for one in body.objects("tags")},
            key=request.headers.get("idempotency-key"),
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply({"id": messages[0].id})

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {401: "missing_api_key", 422: "validation_error", 429: "rate_limit_exceeded"}
        name = names.get(status, "application_error")
        return json_reply({"statusCode": status, "name": name, "message": reason}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        if not error.is_missing:
            return super().invalid(error)
        words = {"statusCode": 422, "name": "missing_required_field", "message": str(error)}
        return json_reply(words, 422)

    def known_key(self, messages: Sequence[FakeMessage], *, is_same: bool) -> FakeReply:
        name = "invalid_idempotent_request" if not is_same else "concurrent_idempotent_requests"
        if messages and is_same:
            return self.accepted(messages)
        return json_reply({"statusCode": 409, "name": name, "message": "the key is in use"}, 409)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"tags": dict(message.mail.marks)}


FAKE = FakeResend
