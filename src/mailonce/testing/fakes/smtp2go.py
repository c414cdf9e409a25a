"""SMTP2GO: https://developers.smtp2go.com/reference/send-standard-email."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeSmtp2go(Fake):
    """Counts what succeeded; webhooks and activity show the headers that were asked for."""

    name = "smtp2go"
    known_calls = ("POST /v3/email/send", "POST /v3/activity/search")
    invalid_status = 400

    def is_authorized(self, request: FakeRequest) -> bool:
        """Look for the key in a header, and then in the body."""
        key = request.headers.get("x-smtp2go-api-key")
        try:
            return (key or json_fields(request).values.get("api_key")) == self.secret
        except CallRefusedError:
            return False

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v3/email/send":
            return None
        body = json_fields(request)
        body.address("sender")
        to = need_recipients(body.addresses("to"), "to", most=100)
        if not body.has("template_id"):
            body.need_text("subject")
            body.need_content("text_body", "html_body")
        headers = body.objects("custom_headers")
        return to_each(
            [*to, *body.addresses("cc", "bcc")],
            subject=body.text("subject"),
            marks={one.need_text("header"): one.text("value") for one in headers},
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        counts = {"succeeded": len(messages), "failed": 0, "failures": []}
        return json_reply({"request_id": "r", "data": {**counts, "email_id": messages[0].id}})

    def refused(self, status: int, reason: str) -> FakeReply:
        code = "E_ApiResponseCodes.NON_VALIDATING_IN_PAYLOAD"
        return json_reply(
            {"request_id": "r", "data": {"error": reason, "error_code": code}}, status
        )

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        failures = ["another was unroutable"]
        counts = {"succeeded": len(messages), "failed": 1, "failures": failures}
        return json_reply({"request_id": "r", "data": {**counts, "email_id": messages[0].id}})

    def refused_in_success(self) -> FakeReply:
        counts = {"succeeded": 0, "failed": 1, "failures": ["unroutable"]}
        return json_reply({"request_id": "r", "data": counts})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"X-Mailonce-Id": message.mail.marks.get("X-Mailonce-Id")}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search the activity by recipient."""
        if request.call != "POST /v3/activity/search":
            return None
        body = json_fields(request)
        names, recipient = body.texts("custom_headers"), body.text("search_recipient")
        items = [
            {
                "email_id": one.id,
                "event": "processed",
                "headers": {name: one.mail.marks.get(name) for name in names},
            }
            for one in self.listed()
            if recipient in {"", one.mail.recipient}
        ]
        return json_reply({"request_id": "r", "data": {"events": items}})


FAKE = FakeSmtp2go
