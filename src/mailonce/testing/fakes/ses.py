"""Amazon SES v2: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mailonce.testing.fakes.fake import Fake, json_reply
from mailonce.testing.fakes.forms import read_base64_mime
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

_PROOF = re.compile(
    r"AWS4-HMAC-SHA256 Credential=AKIDFAKE/\d{8}/eu-west-1/ses/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}"
)


class FakeSes(Fake):
    """Looks at the form of a signature only; its errors have their name in a header."""

    name = "ses"
    known_calls = ("POST /v2/email/outbound-emails",)

    def sender_settings(self) -> dict[str, Any]:
        """Give an access key and its secret."""
        login = {"username": "AKIDFAKE", "password": self.secret, "region": "eu-west-1"}
        return {"provider": self.name, "endpoint": self.url, **login}

    def is_authorized(self, request: FakeRequest) -> bool:
        return _PROOF.fullmatch(request.headers.get("authorization", "")) is not None

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        if request.call != "POST /v2/email/outbound-emails":
            return None
        # Amazon does not look at the Content-Type.
        body = json_fields(request, type_matters=False)
        content = body.fields("Content")
        body.need("Content")
        content.need("Simple", "Raw", "Template")
        if content.has("Raw"):
            return _read_raw(body, content.fields("Raw"))
        body.address("FromEmailAddress")
        if content.has("Simple"):
            return _read_simple(body, content.fields("Simple"))
        template = content.fields("Template")
        template.need("TemplateName", "TemplateArn", "TemplateContent")
        return _to_each(body, _destination(body), "", [])

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        return json_reply({"MessageId": messages[0].id})

    def refused(self, status: int, reason: str) -> FakeReply:
        names = {
            400: (400, "BadRequestException"),
            401: (403, "UnrecognizedClientException"),
            404: (404, "NotFoundException"),
            422: (400, "MessageRejected"),
            429: (429, "TooManyRequestsException"),
        }
        code, name = names.get(status, (status, "InternalFailure"))
        return json_reply({"message": reason}, code, {"x-amzn-ErrorType": name})

    def invalid(self, error: CallRefusedError) -> FakeReply:
        return self.refused(400, str(error))

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return dict(message.mail.marks)


def _destination(body: Fields) -> list[FakeRecipient]:
    fields = body.fields("Destination")
    return fields.addresses("ToAddresses", "CcAddresses", "BccAddresses")


def _read_simple(body: Fields, simple: Fields) -> list[FakeMail]:
    simple.need("Subject")
    subject = _read_data(simple, "Subject")
    simple.need("Body")
    parts = simple.fields("Body")
    parts.need("Text", "Html")
    for name in ("Text", "Html"):
        if parts.values.get(name) is not None:
            _read_data(parts, name)
    more = [(one.need_text("Name"), one.text("Value")) for one in simple.objects("Headers")]
    headers = [("From", body.text("FromEmailAddress")), ("Subject", subject), *more]
    return _to_each(body, _destination(body), subject, headers)


def _read_data(fields: Fields, name: str) -> str:
    """Read the text of a part, which may be empty and must be there."""
    part = fields.fields(name)
    if part.values.get("Data") is None:
        part.need("Data")
    return part.text("Data")


def _read_raw(body: Fields, raw: Fields) -> list[FakeMail]:
    """Read a whole message; it goes to those in its headers where the call names nobody."""
    mail = read_base64_mime(raw, "Data")
    sender = body.text("FromEmailAddress") or mail.header("from")
    Fields({"FromEmailAddress": sender}).address("FromEmailAddress")
    recipients = _destination(body) or mail.recipients()
    return _to_each(body, recipients, mail.header("subject"), mail.headers)


def _to_each(
    body: Fields, recipients: list[FakeRecipient], subject: str, headers: list[tuple[str, str]]
) -> list[FakeMail]:
    tags = {one.need_text("Name"): [one.text("Value")] for one in body.objects("EmailTags")}
    named = [{"name": name, "value": value} for name, value in headers]
    return to_each(
        need_recipients(recipients, "Destination", most=50),
        subject=subject,
        marks={"tags": tags, "headers": named},
    )


FAKE = FakeSes
