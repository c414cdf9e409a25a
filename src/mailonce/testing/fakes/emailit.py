"""Emailit: https://emailit.com/docs/api-reference/emails/."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, bare, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeEmailit(Fake):
    """Knows an idempotency key for a day, and does not look at what is sent under it."""

    name = "emailit"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v2/emails"):
            return None
        body = json_body(request)
        return FakeMail(
            recipient=bare(body["to"]),
            subject=body["subject"],
            marks=body.get("meta", {}),
            key=request.headers.get("idempotency-key"),
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"object": "email", "id": message.id}, 201)

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"error": reason}, status)

    def known_key(self, message: FakeMessage | None, *, is_same: bool) -> FakeReply:
        del is_same
        if message is None:
            return json_reply({"error": "a request with this key is in progress"}, 409)
        return json_reply({"object": "email", "id": message.id})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"meta": dict(message.mail.marks)}


FAKE = FakeEmailit
