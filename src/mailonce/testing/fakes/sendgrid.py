"""SendGrid: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send."""

import re
from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest

_QUERY = re.compile(r"unique_args\['(\w+)'\]=\"([\w-]+)\"")


class FakeSendgrid(Fake):
    """Answers 202 without a body; the message's id is a header."""

    name = "sendgrid"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/v3/mail/send"):
            return None
        body = json_body(request)
        (person,) = body["personalizations"]
        return FakeMail(
            recipient=person["to"][0]["email"],
            subject=body["subject"],
            marks={"args": person.get("custom_args", {}), "category": body.get("categories", [])},
            message_id=body.get("headers", {}).get("Message-ID", ""),
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return FakeReply(202, headers={"X-Message-Id": message.id})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"errors": [{"message": reason, "field": None, "help": None}]}, status)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        """Custom arguments stand among the fields of the event."""
        marks = message.mail.marks
        return {**marks["args"], **({"category": marks["category"]} if marks["category"] else {})}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search the activity feed by a custom argument."""
        match = _QUERY.fullmatch(request.query.get("query", ""))
        if request.path != "/v3/messages" or match is None:
            return None
        name, value = match.groups()
        matches = [one for one in self.listed() if one.mail.marks["args"].get(name) == value]
        items = [
            {"msg_id": f"{one.id}.filter0001.1.0", "to_email": one.mail.recipient}
            for one in matches
        ]
        return json_reply({"messages": items})


FAKE = FakeSendgrid
