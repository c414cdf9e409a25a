"""SMTP2GO: https://developers.smtp2go.com/reference/send-standard-email."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, bare, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeSmtp2go(Fake):
    """Counts what succeeded; webhooks and activity show the headers that were asked for."""

    name = "smtp2go"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-smtp2go-api-key") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v3/email/send"):
            return None
        body = json_body(request)
        headers = {one["header"]: one["value"] for one in body.get("custom_headers", [])}
        return FakeMail(recipient=bare(body["to"][0]), subject=body["subject"], marks=headers)

    def accepted(self, message: FakeMessage) -> FakeReply:
        counts = {"succeeded": 1, "failed": 0, "failures": []}
        return json_reply({"request_id": "r", "data": {**counts, "email_id": message.id}})

    def refused(self, status: int, reason: str) -> FakeReply:
        code = "E_ApiResponseCodes.NON_VALIDATING_IN_PAYLOAD"
        return json_reply(
            {"request_id": "r", "data": {"error": reason, "error_code": code}}, status
        )

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        counts = {"succeeded": 1, "failed": 1, "failures": ["another was unroutable"]}
        return json_reply({"request_id": "r", "data": {**counts, "email_id": message.id}})

    def refused_in_success(self) -> FakeReply:
        counts = {"succeeded": 0, "failed": 1, "failures": ["unroutable"]}
        return json_reply({"request_id": "r", "data": counts})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"X-Mailonce-Id": message.mail.marks.get("X-Mailonce-Id")}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search the activity by recipient."""
        if (request.method, request.path) != ("POST", "/v3/activity/search"):
            return None
        body = json_body(request)
        items = [
            {
                "email_id": one.id,
                "event": "processed",
                "headers": {name: one.mail.marks.get(name) for name in body["custom_headers"]},
            }
            for one in self.listed()
            if one.mail.recipient == body["search_recipient"]
        ]
        return json_reply({"request_id": "r", "data": {"events": items}})


FAKE = FakeSmtp2go
