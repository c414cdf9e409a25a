"""Scaleway: https://www.scaleway.com/en/developers/api/transactional-email/emails."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import CallRefusedError, json_fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage

PATH = "/transactional-email/v1alpha1/regions/fr-par/emails"


class FakeScaleway(Fake):
    """Its events bring the headers back; nothing can be looked up."""

    name = "scaleway"
    known_calls = (f"POST {PATH}",)
    invalid_status = 400
    has_id_per_recipient = True
    settings: ClassVar[Mapping[str, Any]] = {"options": {"project_id": "p1"}}

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-auth-token") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != f"POST {PATH}":
            return None
        body = json_fields(request)
        body.person("from")
        recipients = need_recipients(body.people("to", "cc", "bcc"), "to")
        body.need_text("subject")
        body.need_content("text", "html")
        body.need_text("project_id")
        headers = [
            {"key": one.need_text("key"), "value": one.text("value")}
            for one in body.objects("additional_headers")
        ]
        return to_each(recipients, subject=body.text("subject"), marks={"email_headers": headers})

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        emails = [
            {
                "id": one.id,
                "status": "new",
                "mail_rcpt": one.mail.recipient,
                "rcpt_type": one.mail.role,
            }
            for one in messages
        ]
        return json_reply({"emails": emails})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"message": reason, "type": "invalid_arguments"}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        if not error.field:
            return super().invalid(error)
        reason = "required" if error.is_missing else "constraint"
        detail = {"argument_name": error.field, "reason": reason, "help_message": str(error)}
        words = {"details": [detail], "message": "invalid argument(s)", "type": "invalid_arguments"}
        return json_reply(words, 400)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)


FAKE = FakeScaleway
