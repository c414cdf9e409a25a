"""Scaleway: https://www.scaleway.com/en/developers/api/transactional-email/emails."""

from collections.abc import Mapping
from typing import Any, ClassVar

from mailonce.testing.fakes.fake import Fake, FakeMail, FakeMessage, json_body, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest


class FakeScaleway(Fake):
    """Its events bring the headers back; nothing can be looked up."""

    name = "scaleway"
    settings: ClassVar[Mapping[str, Any]] = {"options": {"project_id": "p1"}}

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-auth-token") == self.secret

    def read(self, request: FakeRequest) -> FakeMail | None:
        path = "/transactional-email/v1alpha1/regions/fr-par/emails"
        if (request.method, request.path) != ("POST", path):
            return None
        body = json_body(request)
        return FakeMail(
            recipient=body["to"][0]["email"],
            subject=body["subject"],
            marks={"email_headers": body.get("additional_headers", [])},
        )

    def accepted(self, message: FakeMessage) -> FakeReply:
        return json_reply({"emails": [{"id": message.id, "status": "new"}]})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"message": reason, "type": "invalid_arguments"}, status)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)


FAKE = FakeScaleway
