"""SendGrid: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send."""

import re
from base64 import b64decode
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

# https://www.twilio.com/docs/sendgrid/api-reference/mail-send/errors
PERSONALIZATIONS_MAX = 1000
RECIPIENTS_MAX = 1000
CATEGORIES_MAX = 10
RESERVED_HEADERS = frozenset({
    "x-sg-id", "x-sg-eid", "received", "dkim-signature", "content-type",
    "content-transfer-encoding", "to", "from", "subject", "reply-to", "cc", "bcc",
})  # fmt: skip
# What is neither comes last.
_ORDER = {"text/plain": 0, "text/html": 1}
_QUERY = re.compile(r"unique_args\['(\w+)'\]=\"([\w-]+)\"")


class FakeSendgrid(Fake):
    """Answers 202 without a body; the message's id is a header."""

    name = "sendgrid"
    known_calls = ("POST /v3/mail/send", "GET /v3/messages")
    invalid_status = 400

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.secret}"

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v3/mail/send":
            return None
        body = json_fields(request)
        body.need("personalizations")
        body.person("from")
        if not body.has("template_id"):
            body.need("content")
            _check_content(body)
        _check_limits(body)
        _check_headers(body)
        for file in body.objects("attachments"):
            _check_base64(file)
        mails = [
            mail
            for place, person in enumerate(body.objects("personalizations"))
            for mail in _read_person(body, person, place)
        ]
        if len(mails) > RECIPIENTS_MAX:
            raise body.wrong("personalizations", f"have {RECIPIENTS_MAX} recipients at most")
        return mails

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        if messages[0].mail.is_test:
            return FakeReply(200)
        return FakeReply(202, headers={"X-Message-Id": messages[0].id})

    def refused(self, status: int, reason: str) -> FakeReply:
        return json_reply({"errors": [{"message": reason, "field": None, "help": None}]}, status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        words = {"message": str(error), "field": error.field or None, "help": None}
        return json_reply({"errors": [words]}, error.status or self.invalid_status)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        """Custom arguments stand among the fields of the event."""
        marks = message.mail.marks
        return {**marks["args"], **({"category": marks["category"]} if marks["category"] else {})}

    def look_up(self, request: FakeRequest) -> FakeReply | None:
        """Search the activity feed by a custom argument."""
        if request.call != "GET /v3/messages":
            return None
        match = _QUERY.fullmatch(request.query.get("query", ""))
        if match is None:
            words = "this fake searches by unique_args['name']=\"value\" alone"
            raise CallRefusedError(words, field="query")
        name, value = match.groups()
        matches = [one for one in self.listed() if one.mail.marks["args"].get(name) == value]
        items = [
            {"msg_id": f"{one.id}.filter0001.1.0", "to_email": one.mail.recipient}
            for one in matches
        ]
        return json_reply({"messages": items})


def _read_person(body: Fields, person: Fields, place: int) -> list[FakeMail]:
    """Read one of the mails; what a personalization has goes before what all have."""
    _check_headers(person)
    to = need_recipients(person.people("to"), person.name_of("to"))
    recipients = [*to, *person.people("cc", "bcc")]
    if len({one.address.lower() for one in recipients}) < len(recipients):
        raise person.wrong("to", "and 'cc' and 'bcc' must not have an address twice")
    subject = person.text("subject") or body.text("subject")
    if not subject and not body.has("template_id"):
        body.need_text("subject")
    headers = {**body.mapping("headers"), **person.mapping("headers")}
    return to_each(
        recipients,
        subject=subject,
        marks={
            "args": {**body.mapping("custom_args"), **person.mapping("custom_args")},
            "category": body.texts("categories"),
        },
        message_id=Fields(headers, "headers").text("Message-ID"),
        place=place,
        is_test=_is_sandboxed(body),
    )


def _check_content(body: Fields) -> None:
    types = []
    for one in body.objects("content"):
        types.append(one.need_text("type").lower())
        one.need_text("value")
    order = [_ORDER.get(type_, len(_ORDER)) for type_ in types]
    if order != sorted(order):
        raise body.wrong("content", "must have text/plain first, then text/html, then the others")


def _check_limits(body: Fields) -> None:
    if len(body.objects("personalizations")) > PERSONALIZATIONS_MAX:
        raise body.wrong("personalizations", f"are {PERSONALIZATIONS_MAX} at most")
    if len(body.texts("categories")) > CATEGORIES_MAX:
        raise body.wrong("categories", f"are {CATEGORIES_MAX} at most")


def _check_headers(fields: Fields) -> None:
    headers = fields.fields("headers")
    for name in headers.values:
        if name.lower() in RESERVED_HEADERS:
            raise headers.wrong(name, "is a reserved header")


def _check_base64(file: Fields) -> None:
    content = file.need_text("content")
    try:
        # Lines of base64 are base64.
        b64decode("".join(content.split()), validate=True)
    except ValueError:
        raise file.wrong("content", "must be base64 encoded") from None


def _is_sandboxed(body: Fields) -> bool:
    sandbox = body.fields("mail_settings").fields("sandbox_mode")
    is_enabled = sandbox.values.get("enable", False)
    if not isinstance(is_enabled, bool):
        raise sandbox.wrong("enable", "must be a boolean value")
    return is_enabled


FAKE = FakeSendgrid
