"""Golden requests: written by hand from each provider's documents, compared part by part."""

import json
import re
from base64 import b64decode
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import HttpRequest, SendFacts, Sending, SmtpRequest
from mailonce.providers import sending
from tests.core.sends.mails import NOON_MS, full_mail, plain_mail

HERE = Path(__file__).parent / "golden"
MAILS = {"plain": plain_mail(), "full": full_mail()}
FACTS = SendFacts(
    mail_from="shop@example.com",
    recipient="ann@example.net",
    subject="Your code",
    message_id=plain_mail().message_id,
    first_call_ms=NOON_MS,
    now_ms=NOON_MS + 30_000,
)


def golden(name: str) -> dict[str, Any]:
    case: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text())
    return case


def sending_of(name: str) -> Sending:
    found = sending.find(name)
    assert found is not None, f"{name} cannot send"
    return found


def sender_of(name: str, **changes: Any) -> Sender:
    """Make the sender of a golden file."""
    settings = {**golden(name)["sender"], **changes}
    if "secrets" in settings:
        settings["secrets"] = tuple(settings["secrets"])
    return Sender(id="snr_1", workspace="default", name="out", provider=name, **settings)


def shown(request: HttpRequest | SmtpRequest, further: str = "") -> Any:
    """Write what a request holds as the golden files do; `further` headers are taken out."""
    match request:
        case SmtpRequest(mail_from=mail_from, rcpt_to=rcpt_to, message=message):
            name = _file_name(message, further)
            return {"mail_from": mail_from, "rcpt_to": rcpt_to, "message": f"file:{name}"}
        case HttpRequest(headers=headers, body=body):
            type_ = dict(headers)["Content-Type"]
            if type_.startswith("multipart/"):
                return _shown_form(type_, body, further)
            return _without_mime(json.loads(body), further)


def _shown_form(type_: str, body: bytes, further: str) -> list[list[str]]:
    form = message_from_bytes(f"Content-Type: {type_}\r\n\r\n".encode() + body)
    pairs = []
    for part in form.get_payload():
        assert isinstance(part, Message)
        name = str(part.get_param("name", header="content-disposition"))
        if part.get_filename() is None:
            pairs.append([name, str(part.get_payload())])
        else:
            start = body.index(b"\r\n\r\n", body.index(b'filename="')) + 4
            message = body[start : body.rindex(b"\r\n--")]
            pairs.append([name, f"file:{_file_name(message, further)}"])
    return pairs


def _without_mime(value: Any, further: str) -> Any:
    if isinstance(value, dict):
        return {name: _without_mime(one, further) for name, one in value.items()}
    if isinstance(value, str) and len(value) > 200:
        return f"base64:{_file_name(b64decode(value, validate=True), further)}"
    return value


def _file_name(message: bytes, further: str) -> str:
    """Name the golden message that this one is; boundaries are numbered as they come."""
    assert message.count(b"\r\n") == message.count(b"\n"), "a message has CRLF"
    text = message.decode().replace("\r\n", "\n")
    assert further in text
    text = text.replace(further, "")
    for number, boundary in enumerate(re.findall(r'boundary="(\S+)"', text), 1):
        text = text.replace(boundary, f"BOUNDARY-{number}")
    for path in HERE.glob("*.eml"):
        if path.read_text() == text:
            return path.name
    return text
