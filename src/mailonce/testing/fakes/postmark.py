"""Postmark: https://postmarkapp.com/developer/api/email-api."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, bare, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakePostmark(Fake):
    """Answers with codes of its own; its messages can be searched by metadata."""

    name = "postmark"

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-postmark-server-token") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", "/email"):
            return None
        body = json_body(request)
        headers = {one["Name"]: one["Value"] for one in body.get("Headers", [])}
        keeps_id = headers.get("X-PM-KeepID") == "true"
        return FakeMail(
            recipient=bare(body["To"]),
            subject=body["Subject"],
            marks={"Metadata": body.get("Metadata", {}), "Tag": body.get("Tag")},
            message_id=headers.get("Message-ID", "") if keeps_id else "",
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        to = message.mail.recipient
        return json_reply({"ErrorCode": 0, "Message": "OK", "MessageID": message.id, "To": to})

    def refused(self, status: int, reason: str) -> FakeReply:
        code = {401: 10, 422: 300}.get(status, 1)
        return json_reply({"ErrorCode": code, "Message": reason}, status)

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        words = "Message OK, but will not deliver to these inactive addresses: other@example.net."
        return json_reply({"ErrorCode": 0, "Message": words, "MessageID": message.id})

    def refused_in_success(self) -> FakeReply:
        return json_reply({"ErrorCode": 406, "Message": "Inactive recipient"})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {name: value for name, value in message.mail.marks.items() if value}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Filter by metadata; a filter of another name is ignored."""
        if (request.method, request.path) != ("GET", "/messages/outbound"):
            return None
        wanted = {
            name.removeprefix("metadata_"): value
            for name, value in request.query.items()
            if name.startswith("metadata_")
        }
        items = [
            {"MessageID": one.id, "Metadata": one.mail.marks["Metadata"]}
            for one in self.listed()
            if wanted.items() <= one.mail.marks["Metadata"].items()
        ]
        return json_reply({"TotalCount": len(items), "Messages": items})


FAKE = FakePostmark
