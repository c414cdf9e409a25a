"""Mandrill: https://mailchimp.com/developer/transactional/api/messages/send-new-message/."""

from collections.abc import Mapping
from typing import Any

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest

PREFIX = "/api/1.0/messages"


class FakeMandrill(Fake):
    """Has its key in the body, a status for each recipient, and most errors in a 500."""

    name = "mandrill"

    def is_authorized(self, request: FakeRequest) -> bool:
        return json_body(request).get("key") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        if (request.method, request.path) != ("POST", f"{PREFIX}/send.json"):
            return None
        message = json_body(request)["message"]
        return FakeMail(
            recipient=message["to"][0]["email"],
            subject=message["subject"],
            marks={"metadata": message.get("metadata", {}), "tags": message.get("tags", [])},
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        email = message.mail.recipient
        return json_reply([{"email": email, "status": "sent", "_id": message.id}])

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {401: "Invalid_Key", 422: "ValidationError"}
        error = {"status": "error", "code": -1, "name": names.get(status, "GeneralError")}
        return json_reply({**error, "message": reason}, 500 if status in names else status)

    def accepted_in_part(self, message: FakeMessage) -> FakeReply:
        ours = {"email": message.mail.recipient, "status": "sent", "_id": message.id}
        other = {"email": "other@example.net", "status": "rejected", "_id": "r"}
        return json_reply([ours, {**other, "reject_reason": "hard-bounce"}])

    def refused_in_success(self) -> FakeReply:
        return json_reply([{"status": "rejected", "reject_reason": "hard-bounce", "_id": "r"}])

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search by recipient."""
        if (request.method, request.path) != ("POST", f"{PREFIX}/search.json"):
            return None
        recipient = json_body(request).get("query", "").removeprefix("email:")
        return json_reply(
            [
                {"_id": one.id, "email": recipient, "metadata": one.mail.marks["metadata"]}
                for one in self.listed()
                if one.mail.recipient == recipient
            ]
        )


FAKE = FakeMandrill
