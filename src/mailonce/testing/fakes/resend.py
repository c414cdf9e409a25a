"""Resend: https://resend.com/docs/api-reference/emails/send-email."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage

KEY = "Idempotency-Key"
KEY_CHARS_MAX = 256


class FakeResend(Fake):
    """Knows an idempotency key for a day, and compares what is sent under it."""

    name = "resend"
    known_calls = ("POST /emails",)

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /emails":
            return None
        key = request.headers.get(KEY.lower())
        if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
            words = f"the key must have between 1 and {KEY_CHARS_MAX} characters"
            raise CallRefusedError(words, field=KEY)
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
            key=key,
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply({"id": messages[0].id})

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {422: "validation_error", 429: "rate_limit_exceeded"}
        return _error(status, names.get(status, "application_error"), reason)

    def unauthorized(self, request: FakeRequest) -> FakeReply:
        """Tell a wrong key from none, as its list of errors does.

        Callers have also seen "validation_error" for a wrong key, as 400 and as 401:
        https://github.com/resend/resend-node/pull/617.
        """
        if "authorization" in request.headers:
            return _error(403, "invalid_api_key", "API key is invalid")
        return _error(401, "missing_api_key", "Missing API key in the authorization header")

    def invalid(self, error: CallRefusedError) -> FakeReply:
        if error.field == KEY:
            return _error(400, "invalid_idempotency_key", str(error))
        if error.is_missing:
            return _error(422, "missing_required_field", str(error))
        return super().invalid(error)

    def known_key(self, messages: Sequence[FakeMessage], *, is_same: bool) -> FakeReply:
        name = "invalid_idempotent_request" if not is_same else "concurrent_idempotent_requests"
        if messages and is_same:
            return self.accepted(messages)
        return _error(409, name, "the key is in use")

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"subject": message.mail.subject, "tags": dict(message.mail.marks)}


def _error(status: int, name: str, message: str) -> FakeReply:
    return json_reply({"statusCode": status, "name": name, "message": message}, status)


FAKE = FakeResend
