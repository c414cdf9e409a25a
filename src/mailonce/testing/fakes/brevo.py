"""Brevo: https://developers.brevo.com/reference/sendtransacemail."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeBrevo(Fake):
    """Knows an idempotency key in the body for half an hour, and refuses what comes under it."""

    name = "brevo"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("api-key") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v3/smtp/email"):
            return None
        body = json_body(request)
        headers = body.get("headers", {})
        return FakeMail(
            recipient=body["to"][0]["email"],
            subject=body["subject"],
            marks={"tags": body.get("tags", []), "custom": headers.get("X-Mailin-custom")},
            key=headers.get("idempotencyKey"),
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"messageId": message.id}, 201)

    def refused(self, status: int, reason: str) -> FakeReply:
        # It knows no 422.
        code = 400 if status == 422 else status
        return json_reply({"code": "invalid_parameter", "message": reason}, code)

    def known_key(self, message: FakeMessage | None, *, is_same: bool) -> FakeReply:
        del message, is_same
        return json_reply({"code": "duplicate_parameter", "message": "the key was used"}, 400)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        marks = message.mail.marks
        custom = {"X-Mailin-custom": marks["custom"]} if marks["custom"] else {}
        return {"tags": marks["tags"], **custom}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """List the mail of one recipient."""
        if (request.method, request.path) != ("GET", "/v3/smtp/emails"):
            return None
        items = [
            {"email": one.mail.recipient, "messageId": one.id, "tags": one.mail.marks["tags"]}
            for one in self.listed()
            if one.mail.recipient == request.query.get("email")
        ]
        # Without mail there is no list either.
        listed = {"transactionalEmails": items} if items else {}
        return json_reply({"count": len(items), **listed})


FAKE = FakeBrevo
