"""Mailjet: https://dev.mailjet.com/email/guides/send-api-v31/."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

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

ERROR = {"ErrorCode": "mj-0013", "StatusCode": 400, "ErrorMessage": "invalid"}


class FakeMailjet(Fake):
    """Has a status for each message; messages can be searched by CustomID."""

    name = "mailjet"
    known_calls = ("POST /v3.1/send", "GET /v3/REST/message")
    invalid_status = 400
    has_id_per_recipient = True

    def sender_settings(self) -> dict[str, Any]:
        """Give a key and its secret, by which Mailjet logs a caller in."""
        login = {"username": "key", "password": self.secret}
        return {"provider": self.name, "endpoint": self.url, **login}

    def is_authorized(self, request: FakeRequest) -> bool:
        token = b64encode(f"key:{self.secret}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {token}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v3.1/send":
            return None
        body = json_fields(request)
        body.need("Messages")
        common = body.mapping("Globals")
        is_test = body.values.get("SandboxMode") is True
        return [
            mail
            for place, one in enumerate(body.objects("Messages"))
            for mail in _read_message(Fields({**common, **one.values}), place, is_test=is_test)
        ]

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply({"Messages": _succeeded(messages)})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"ErrorMessage": reason, "StatusCode": status}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        """Name the field in the place of a message; the fake takes all of a call, or nothing."""
        if not error.field:
            return super().invalid(error)
        words = {**ERROR, "ErrorMessage": str(error), "ErrorRelatedTo": [error.field]}
        return json_reply({"Messages": [{"Status": "error", "Errors": [words]}]}, 400)

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        """Its status is that of the worst."""
        other = {"Status": "error", "Errors": [ERROR]}
        return json_reply({"Messages": [*_succeeded(messages), other]}, 400)

    def refused_in_success(self) -> FakeReply:
        return json_reply({"Messages": [{"Status": "error", "Errors": [ERROR]}]})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {name: value for name, value in message.mail.marks.items() if value}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Find messages by CustomID."""
        if request.call != "GET /v3/REST/message":
            return None
        wanted = request.query.get("CustomID")
        items = [
            {"ID": int(one.id), "CustomID": wanted}
            for one in self.listed()
            if one.mail.marks["CustomID"] == wanted
        ]
        return json_reply({"Count": len(items), "Data": items, "Total": len(items)})


def _read_message(message: Fields, place: int, *, is_test: bool) -> list[FakeMail]:
    recipients = need_recipients(message.people("To", "Cc", "Bcc", key="Email"), "To", most=50)
    # A template can have a sender of its own.
    if not message.has("TemplateID"):
        message.person("From", "Email")
        message.need_content("TextPart", "HTMLPart")
    return to_each(
        recipients,
        subject=message.text("Subject"),
        marks={
            "CustomID": message.text("CustomID"),
            "Payload": message.text("EventPayload") or None,
        },
        place=place,
        is_test=is_test,
    )


def _succeeded(messages: Sequence[FakeMessage]) -> list[dict[str, Any]]:
    """Write the part of an answer that speaks of each message."""
    parts: dict[int, dict[str, Any]] = {}
    for message in messages:
        empty = {"Status": "success", "To": [], "Cc": [], "Bcc": []}
        part = parts.setdefault(message.mail.place, empty)
        ids = {"MessageID": int(message.id), "MessageUUID": f"uuid-{message.id}"}
        # Sandbox mode leaves out the ids: https://dev.mailjet.com/email/guides/send-api-v31/.
        given = {} if message.mail.is_test else ids
        part[message.mail.role.title()].append({"Email": message.mail.recipient, **given})
    return list(parts.values())


FAKE = FakeMailjet
