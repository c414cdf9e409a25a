"""Postmark: https://postmarkapp.com/developer/api/email-api."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import (
    CallRefusedError,
    Fields,
    FieldTypeError,
    json_fields,
    need_recipients,
    to_each,
)
from mailonce.testing.fakes.records import FakeMail, FakeMessage

METADATA_NAME_CHARS_MAX = 20
METADATA_VALUE_CHARS_MAX = 80
# Clients read a time in the answer; the fake has no clock.
SUBMITTED = {"SubmittedAt": "2026-01-01T12:00:00.0000000Z"}


class FakePostmark(Fake):
    """Answers with codes of its own; its messages can be searched by metadata."""

    name = "postmark"
    known_calls = ("POST /email", "GET /messages/outbound")

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-postmark-server-token") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /email":
            return None
        body = json_fields(request)
        body.address("From")
        to = need_recipients(body.listed_addresses("To", "Cc", "Bcc"), "To", most=50)
        body.need_content("TextBody", "HtmlBody")
        headers = {one.text("Name"): one.text("Value") for one in body.objects("Headers")}
        keeps_id = headers.get("X-PM-KeepID") == "true"
        return to_each(
            to,
            subject=body.text("Subject"),
            marks={"Metadata": _read_metadata(body), "Tag": body.text("Tag") or None},
            message_id=headers.get("Message-ID", "") if keeps_id else "",
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        answer = {"ErrorCode": 0, "Message": "OK", "MessageID": messages[0].id}
        return json_reply({**answer, **SUBMITTED, **_recipients(messages)})

    def refused(self, status: int, reason: str) -> FakeReply:
        code = {401: 10, 422: 300}.get(status, 1)
        return json_reply({"ErrorCode": code, "Message": reason}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        """A code of its own has a value of another type than the documents name."""
        if not isinstance(error, FieldTypeError):
            return super().invalid(error)
        return json_reply({"ErrorCode": 403, "Message": f"Invalid request field(s): {error}"}, 422)

    def accepted_in_part(self, messages: Sequence[FakeMessage]) -> FakeReply:
        words = "Message OK, but will not deliver to these inactive addresses: other@example.net."
        return json_reply({"ErrorCode": 0, "Message": words, "MessageID": messages[0].id})

    def refused_in_success(self) -> FakeReply:
        return json_reply({"ErrorCode": 406, "Message": "Inactive recipient"})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {name: value for name, value in message.mail.marks.items() if value}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Filter by metadata; a filter of another name is ignored."""
        if request.call != "GET /messages/outbound":
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


def _read_metadata(body: Fields) -> dict[str, str]:
    metadata = body.fields("Metadata")
    for name in metadata.values:
        value = metadata.text(name)
        if len(name) > METADATA_NAME_CHARS_MAX or len(value) > METADATA_VALUE_CHARS_MAX:
            limits = f"{METADATA_NAME_CHARS_MAX} and {METADATA_VALUE_CHARS_MAX} characters"
            raise metadata.wrong(name, f"is too long: name and value have {limits} at most")
    return dict(metadata.values)


def _recipients(messages: Sequence[FakeMessage]) -> dict[str, str]:
    """Write the recipients of each field that has some."""
    fields: dict[str, list[str]] = {}
    for message in messages:
        fields.setdefault(message.mail.role.title(), []).append(message.mail.recipient)
    return {name: ", ".join(addresses) for name, addresses in fields.items()}


FAKE = FakePostmark
