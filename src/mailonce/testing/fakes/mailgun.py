"""Mailgun: https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages."""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.forms import FormField, MimeMail, read_form, read_mime
from mailonce.testing.fakes.http_server import FakeReply, FakeRequest
from mailonce.testing.fakes.reading import Fields, need_recipients, to_each
from mailonce.testing.fakes.records import FakeMail, FakeMessage

DOMAIN = "mg.example.com"
_SEND = re.compile(r"POST /v3/([^/]+)/messages(\.mime)?")
_EVENTS = re.compile(r"GET /v3/[^/]+/events")


class FakeMailgun(Fake):
    """Takes forms, with a message or with its parts; each domain is one of the caller's."""

    name = "mailgun"
    known_calls = (
        "POST /v3/DOMAIN/messages",
        "POST /v3/DOMAIN/messages.mime",
        "GET /v3/DOMAIN/events",
    )
    invalid_status = 400
    settings: ClassVar[Mapping[str, Any]] = {"domain": DOMAIN}

    def is_authorized(self, request: FakeRequest) -> bool:
        token = b64encode(f"api:{self.secret}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {token}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        match = _SEND.fullmatch(request.call)
        if match is None:
            return None
        form = read_form(request)
        fields = _fields(form)
        if match[2]:
            fields.need("message")
            raw = next(one.value for one in form if one.name == "message")
            recipients = fields.listed_addresses("to")
            mail = read_mime(raw)
        else:
            fields.address("from")
            recipients = fields.listed_addresses("to")
            mail = _written_mail(form, fields)
        own_id = f"<{len(self.calls)}.fake@{match[1]}>"
        variables = {
            one.name.removeprefix("v:"): one.text for one in form if one.name.startswith("v:")
        }
        return to_each(
            [*need_recipients(recipients, "to"), *fields.listed_addresses("cc", "bcc")],
            subject=mail.header("subject"),
            marks={"user-variables": variables},
            message_id=mail.header("message-id") or own_id,
        )

    def new_id(self, number: int, mail: FakeMail) -> str:
        """Give the Message-ID, by which Mailgun names a mail."""
        del number
        return mail.message_id

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply({"id": messages[0].id, "message": "Queued. Thank you."})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"message": reason}, 400 if status == 422 else status)

    def refused_in_success(self) -> FakeReply:
        return FakeReply(200, b"Mailgun Magnificent API", {"Content-Type": "text/plain"})

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        headers = {"message-id": message.id.strip("<>")}
        return {**message.mail.marks, "message": {"headers": headers}}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search events by Message-ID."""
        if _EVENTS.fullmatch(request.call) is None:
            return None
        wanted = request.query.get("message-id")
        items = [
            {"event": "accepted", "recipient": one.mail.recipient, **self.details(one)}
            for one in self.listed()
            if one.id.strip("<>") == wanted
        ]
        return json_reply({"items": items, "paging": {}})


def _fields(form: list[FormField]) -> Fields:
    """Give the fields by name; those that may stand several times are one list."""
    values: dict[str, str] = {}
    for one in form:
        is_listed = one.name in {"to", "cc", "bcc"} and one.name in values
        values[one.name] = f"{values[one.name]}, {one.text}" if is_listed else one.text
    return Fields(values)


def _written_mail(form: list[FormField], fields: Fields) -> MimeMail:
    """Make the headers of a mail that comes in parts."""
    fields.need_content("text", "html", instead=["amp-html", "template"])
    own = [(one.name.removeprefix("h:"), one.text) for one in form if one.name.startswith("h:")]
    return MimeMail([("Subject", fields.text("subject")), *own])


FAKE = FakeMailgun
