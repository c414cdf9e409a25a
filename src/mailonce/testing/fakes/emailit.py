"""Emailit: https://emailit.com/docs/api-reference/emails/."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeEmailit(Fake):
    """Knows an idempotency key for a day, and does not look at what is sent under it."""

    name = "emailit"
    known_calls = ("POST /v2/emails",)
    invalid_status = 400
    has_id_per_recipient = True

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v2/emails":
            return None
        body = json_fields(request)
        body.address("from")
        recipients = [*need_recipients(body.addresses("to"), "to"), *body.addresses("cc", "bcc")]
        if not body.has("template"):
            body.need_text("subject")
            body.need_content("text", "html")
        return to_each(
            recipients,
            subject=body.text("subject"),
            marks=body.mapping("meta"),
            key=request.headers.get("idempotency-key"),
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply(_accepted(messages), 201)

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"error": reason}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        words = {"error": "Validation failed", "message": str(error)}
        return json_reply(words, error.status or self.invalid_status)

    def known_key(self, messages: Sequence[FakeMessage], *, is_same: bool) -> FakeReply:
        del is_same
        if not messages:
            return json_reply({"error": "a request with this key is in progress"}, 409)
        return json_reply(_accepted(messages))

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"meta": dict(message.mail.marks)}


def _accepted(messages: Sequence[FakeMessage]) -> dict[str, Any]:
    """Name the first message, and that of each recipient."""
    ids = {message.mail.recipient: message.id for message in messages}
    return {"object": "email", "id": messages[0].id, "ids": ids}


FAKE = FakeEmailit
