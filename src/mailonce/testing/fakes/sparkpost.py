"""SparkPost: https://developers.sparkpost.com/api/transmissions/."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeSparkpost(Fake):
    """Counts what it took; its events can be searched by recipient."""

    name = "sparkpost"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/api/v1/transmissions"):
            return None
        body = json_body(request)
        (recipient,) = body["recipients"]
        return FakeMail(
            recipient=recipient["address"]["email"],
            subject=body["content"]["subject"],
            marks={
                "rcpt_meta": recipient.get("metadata", {}),
                "rcpt_tags": recipient.get("tags", []),
            },
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return self._counted(1, message.id)

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"errors": [{"message": reason, "code": "1902"}]}, status)

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        return self._counted(1, message.id, refused=1)

    def refused_in_success(self) -> FakeReply:
        return self._counted(0, "none", refused=1)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search events by recipient."""
        if (request.method, request.path) != ("GET", "/api/v1/events/message"):
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


FAKE = FakeSparkpost
