"""MailerSend: https://developers.mailersend.com/api/v1/email.html."""

from collections.abc import Mapping
from typing import Any, ClassVar

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeMailersend(Fake):
    """Answers 202 with the id in a header; that a recipient is suppressed is a warning."""

    name = "mailersend"
    settings: ClassVar[Mapping[str, Any]] = {"options": {"domain_id": "d1"}}

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v1/email"):
            return None
        body = json_body(request)
        return FakeMail(
            recipient=body["to"][0]["email"],
            subject=body["subject"],
            marks={"tags": body.get("tags", [])},
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return FakeReply(202, headers={"X-Message-Id": message.id})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"message": reason}, status)

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        warning = {"type": "SOME_SUPPRESSED", "recipients": [{"email": "other@example.net"}]}
        return json_reply({"warnings": [warning]}, 202, {"X-Message-Id": message.id})

    def refused_in_success(self) -> FakeReply:
        return json_reply({"warnings": [{"type": "ALL_SUPPRESSED", "recipients": []}]}, 202)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """List the activity of a domain."""
        if (request.method, request.path) != ("GET", "/v1/activity/d1"):
            return None
        emails = [
            {"tags": one.mail.marks["tags"], "message": {"id": one.id}} for one in self.listed()
        ]
        return json_reply({"data": [{"type": "sent", "email": email} for email in emails]})


FAKE = FakeMailersend
