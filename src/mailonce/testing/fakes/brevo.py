"""Brevo: https://developers.brevo.com/reference/sendtransacemail."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeBrevo(Fake):
    """Knows an idempotency key in the body for half an hour, and refuses what comes under it."""

    name = "brevo"
    known_calls = ("POST /v3/smtp/email", "GET /v3/smtp/emails")
    invalid_status = 400

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("api-key") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v3/smtp/email":
            return None
        body = json_fields(request)
        body.refuse_unknown("messageVersions")
        if not body.has("templateId"):
            # A sender can be named by its number.
            if not body.fields("sender").has("id"):
                body.person("sender")
            body.need_text("subject")
            body.need_content("htmlContent", "textContent", instead=["htmlUrl"])
        headers = body.fields("headers")
        custom = headers.text("X-Mailin-custom") or None
        return to_each(
            [*need_recipients(body.people("to"), "to"), *body.people("cc", "bcc")],
            subject=body.text("subject"),
            marks={"tags": body.texts("tags"), "custom": custom},
            key=headers.text("idempotencyKey") or None,
            is_test=headers.text("X-Sib-Sandbox") == "drop",
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply({"messageId": messages[0].id}, 201)

    def refused(self, status: int, reason: str) -> FakeReply:
        # It knows no 422.
        status = 400 if status == 422 else status
        code = "unauthorized" if status == 401 else "invalid_parameter"
        return json_reply({"code": code, "message": reason}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        if not error.is_missing:
            return super().invalid(error)
        return json_reply({"code": "missing_parameter", "message": str(error)}, 400)

    def known_key(self, messages: Sequence[FakeMessage], *, is_same: bool) -> FakeReply:
        del messages, is_same
        return json_reply({"code": "duplicate_parameter", "message": "the key was used"}, 400)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        marks = message.mail.marks
        custom = {"X-Mailin-custom": marks["custom"]} if marks["custom"] else {}
        return {"subject": message.mail.subject, "tags": marks["tags"], **custom}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """List the mail of one recipient."""
        if request.call != "GET /v3/smtp/emails":
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
