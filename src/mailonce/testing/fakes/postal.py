"""Postal: https://docs.postalserver.io/developer/api."""

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


class FakePostal(Fake):
    """Answers 200 whatever happens; the status is in the body."""

    name = "postal"
    known_calls = ("POST /api/v1/send/message", "POST /api/v1/send/raw")
    has_id_per_recipient = True

    def is_authorized(self, request: FakeRequest) -> bool:
        return request.headers.get("x-server-api-key") == self.secret

    def read(self, request: FakeRequest) -> Sequence[FakeMail] | None:
        match request.call:
            case "POST /api/v1/send/message":
                return self._read_message(json_fields(request))
            case "POST /api/v1/send/raw":
                return self._read_raw(json_fields(request))
            case _:
                return None

    def _read_message(self, body: Fields) -> list[FakeMail]:
        recipients = need_recipients(body.addresses("to", "cc", "bcc"), "to")
        body.address("from")
        body.need_content("plain_body", "html_body")
        return self._to_each(recipients, body.text("subject"), body.text("tag"), "")

    def _read_raw(self, body: Fields) -> list[FakeMail]:
        body.address("mail_from")
        recipients = need_recipients(body.addresses("rcpt_to"), "rcpt_to")
        mail = read_base64_mime(body, "data")
        headers = [mail.header(name) for name in ("subject", "x-postal-tag", "message-id")]
        return self._to_each(recipients, *headers)

    def _to_each(
        self, recipients: list[FakeRecipient], subject: str, tag: str, message_id: str
    ) -> list[FakeMail]:
        """Make one mail for each address; a message without an id is given one."""
        id_ = message_id.strip("<>") or f"fake-{len(self.calls)}@rp.postal.example.com"
        return to_each(
            {one.address: one for one in recipients}.values(),
            subject=subject,
            marks={"tag": tag or None, "message_id": id_},
            message_id=f"<{id_}>",
        )

    def accepted(self, messages: Sequence[FakeMessage]) -> FakeReply:
        rows = {one.mail.recipient: {"id": int(one.id), "token": "t"} for one in messages}
        data = {"message_id": messages[0].mail.message_id.strip("<>"), "messages": rows}
        return json_reply({"status": "success", "time": 0.01, "flags": {}, "data": data})

    def refused(self, status: int, reason: str) -> FakeReply:
        codes = {401: "InvalidServerAPIKey", 422: "NoContent"}
        code = codes.get(status, "InternalError")
        return _error(code, reason, 200 if status in codes else status)

    def invalid(self, error: CallRefusedError) -> FakeReply:
        codes = {"to": "NoRecipients", "from": "FromAddressMissing", "plain_body": "NoContent"}
        if not error.field:
            return super().invalid(error)
        return _error(codes.get(error.field, "ValidationError"), str(error), 200)

    def details(self, message: FakeMessage) -> Mapping[str, Any]:
        return {name: value for name, value in message.mail.marks.items() if value}


def _error(code: str, reason: str, status: int) -> FakeReply:
    return json_reply({"status": "error", "data": {"code": code, "message": reason}}, status)


FAKE = FakePostal
