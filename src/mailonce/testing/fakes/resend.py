"""Resend: https://resend.com/docs/api-reference/emails/send-email."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, bare, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeResend(Fake):
    """Knows an idempotency key for a day, and compares what is sent under it."""

    name = "resend"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/emails"):
            return None
        body = json_body(request)
        return FakeMail(
            recipient=bare(body["to"][0]),
            subject=body["subject"],
            marks={one["name"]: one["value"] for one in body.get("tags", [])},
            key=request.headers.get("idempotency-key"),
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"id": message.id})

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {401: "missing_api_key", 422: "validation_error", 429: "rate_limit_exceeded"}
        name = names.get(status, "application_error")
        return json_reply({"statusCode": status, "name": name, "message": reason}, status)

    def known_key(self, message: FakeMessage | None, *, is_same: bool) -> FakeReply:
        name = "invalid_idempotent_request" if not is_same else "concurrent_idempotent_requests"
        if message is not None and is_same:
            return self.accepted(message)
        return json_reply({"statusCode": 409, "name": name, "message": "the key is in use"}, 409)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"tags": dict(message.mail.marks)}


FAKE = FakeResend
