"""SparkPost: https://developers.sparkpost.com/api/transmissions/."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.forms import read_mime
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import Fields, json_fields
from mailonce.testing.fakes.records import FakeMail, FakeMessage


class FakeSparkpost(Fake):
    """Counts what it took; its events can be searched by recipient."""

    name = "sparkpost"
    known_calls = ("POST /api/v1/transmissions", "GET /api/v1/events/message")

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call.rstrip("/") != "POST /api/v1/transmissions":
            return None
        body = json_fields(request)
        body.need("recipients")
        if isinstance(body.values["recipients"], dict):
            body.fields("recipients").refuse_unknown("list_id")
        body.need("content")
        subject = _read_content(body.fields("content"))
        common = body.mapping("metadata")
        return [
            FakeMail(
                recipient=_address(one),
                subject=subject,
                marks={
                    "rcpt_meta": {**common, **one.mapping("metadata")},
                    "rcpt_tags": one.texts("tags"),
                },
            )
            for one in body.objects("recipients")
        ]

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return self._counted(len(messages), messages[0].id)

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"errors": [{"message": reason, "code": "1902"}]}, status)

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return self._counted(len(messages), messages[0].id, refused=1)

    def refused_in_success(self) -> FakeReply:
        return self._counted(0, "none", refused=1)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search events by recipient."""
        if request.call != "GET /api/v1/events/message":
            return None
        items = [
            {"type": "injection", "transmission_id": one.id, **one.mail.marks}
            for one in self.listed()
            if one.mail.recipient == request.query.get("recipients")
        ]
        return json_reply({"results": items, "total_count": len(items)})

    def _counted(self, many: int, id_: str, *, refused: int = 0) -> FakeReply:
        counts = {"total_accepted_recipients": many, "total_rejected_recipients": refused}
        return json_reply({"results": {**counts, "id": id_}})


def _read_content(content: Fields) -> str:
    """Check the content of a transmission, and give its subject."""
    if content.has("email_rfc822"):
        return read_mime(content.text("email_rfc822").encode()).header("subject")
    if content.has("template_id") or content.has("ab_test_id"):
        return ""
    if isinstance(content.values.get("from"), dict):
        content.person("from")
    else:
        content.address("from")
    content.need_content("text", "html")
    return content.need_text("subject")


def _address(recipient: Fields) -> str:
    """Read an address, which is a text or an object."""
    if isinstance(recipient.values.get("address"), dict):
        return recipient.person("address")
    return recipient.address("address")


FAKE = FakeSparkpost
