"""MailerSend: https://developers.mailersend.com/api/v1/email.html."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import (
    CallRefusedError,
    Fields,
    json_fields,
    need_recipients,
    to_each,
)
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeMailersend(Fake):
    """Answers 202 with the id in a header; that a recipient is suppressed is a warning."""

    name = "mailersend"
    known_calls = ("POST /v1/email", "GET /v1/activity/d1")
    settings: ClassVar[Mapping[str, Any]] = {"options": {"domain_id": "d1"}}

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v1/email":
            return None
        body = json_fields(request)
        # A template can have a sender and a subject of its own.
        if not body.has("template_id"):
            body.person("from")
            body.need_text("subject")
            body.need_content("text", "html")
        to = need_recipients(body.people("to"), "to", most=50)
        return to_each(
            [*to, *body.people("cc", "bcc")],
            subject=body.text("subject"),
            marks={"tags": _tags(body)},
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return FakeReply(202, headers={"X-Message-Id": messages[0].id})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"message": reason}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        errors = {"errors": {error.field: [str(error)]}} if error.field else {}
        words = {"message": "The given data was invalid." if errors else str(error), **errors}
        return json_reply(words, error.status or self.invalid_status)

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        warning = {"type": "SOME_SUPPRESSED", "recipients": [{"email": "other@example.net"}]}
        return json_reply({"warnings": [warning]}, 202, {"X-Message-Id": messages[0].id})

    def refused_in_success(self) -> FakeReply:
        return json_reply({"warnings": [{"type": "ALL_SUPPRESSED", "recipients": []}]}, 202)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """List the activity of a domain."""
        if request.call != "GET /v1/activity/d1":
            return None
        emails = [
            {"tags": one.mail.marks["tags"], "message": {"id": one.id}} for one in self.listed()
        ]
        return json_reply({"data": [{"type": "sent", "email": email} for email in emails]})


def _tags(body: Fields) -> list[str]:
    """Read the tags, which must be a list."""
    if isinstance(body.values.get("tags"), str):
        raise body.wrong("tags", "must be a list")
    return body.texts("tags")


FAKE = FakeMailersend
