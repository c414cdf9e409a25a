"""Mandrill: https://mailchimp.com/developer/transactional/api/messages/send-new-message/."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import (
    CallRefusedError,
    FakeRecipient,
    Fields,
    json_fields,
    need_recipients,
    to_each,
)
from mailonce.testing.fakes.records import FakeMail, FakeMessage

PREFIX = "/api/1.0/messages"


class FakeMandrill(Fake):
    """Has its key in the body, a status for each recipient, and most errors in a 500."""

    name = "mandrill"
    known_calls = (
        f"POST {PREFIX}/send.json",
        f"POST {PREFIX}/send",
        f"POST {PREFIX}/search.json",
    )
    has_id_per_recipient = True

    def is_authorized(self, request: FakeRequest) -> bool:
        """Look for the key in the body; what is no JSON is refused when it is read."""
        try:
            body = json_fields(request, type_matters=False)
        except CallRefusedError:
            return True
        return body.values.get("key") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call not in {f"POST {PREFIX}/send.json", f"POST {PREFIX}/send"}:
            return None
        # The documents show it with the Content-Type that curl has by itself.
        body = json_fields(request, type_matters=False)
        body.need("message")
        message = body.fields("message")
        message.address("from_email")
        recipients = [_recipient(one) for one in message.objects("to")]
        return to_each(
            need_recipients(recipients, "message.to"),
            subject=message.text("subject"),
            marks={"metadata": message.mapping("metadata"), "tags": message.texts("tags")},
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply(_sent(messages))

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {401: "Invalid_Key", 422: "ValidationError"}
        error = {"status": "error", "code": -1, "name": names.get(status, "GeneralError")}
        return json_reply({**error, "message": reason}, 500 if status in names else status)

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        other = {"email": "other@example.net", "status": "rejected", "_id": "r"}
        return json_reply([*_sent(messages), {**other, "reject_reason": "hard-bounce"}])

    def refused_in_success(self) -> FakeReply:
        return json_reply([{"status": "rejected", "reject_reason": "hard-bounce", "_id": "r"}])

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {"subject": message.mail.subject, **message.mail.marks}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search by recipient."""
        if request.call != f"POST {PREFIX}/search.json":
            return None
        query = json_fields(request, type_matters=False).text("query")
        recipient = query.removeprefix("email:")
        return json_reply(
            [
                {"_id": one.id, "email": recipient, "metadata": one.mail.marks["metadata"]}
                for one in self.listed()
                if one.mail.recipient == recipient
            ]
        )


def _recipient(one: Fields) -> FakeRecipient:
    role = one.text("type") or "to"
    if role not in {"to", "cc", "bcc"}:
        raise one.wrong("type", "must be to, cc or bcc")
    return FakeRecipient(one.address("email"), role)


def _sent(messages: Sequence[FakeMessage]) -> list[dict[str, str]]:
    return [
        {"email": message.mail.recipient, "status": "sent", "_id": message.id}
        for message in messages
    ]


FAKE = FakeMandrill
