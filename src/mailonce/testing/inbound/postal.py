"""Postal posts a mail for each recipient, as JSON or a form, raw or processed; both are signed."""

from base64 import encodebytes
from typing import Any
from urllib.parse import urlencode

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail
from mailonce.testing.sign import number_of
from mailonce.testing.simulator import Draft, Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    return [_post(simulator, mail.for_one(one), mode, now_s) for one in mail.recipients]


def _post(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> Post:
    is_form = mode.endswith("form")
    fields = _raw(mail) if mode.startswith("raw") else _processed(mail, is_flat=is_form)
    if is_form:
        flat = [(name, _flat(value)) for name, value in fields.items() if value is not None]
        body, type_ = urlencode(flat).encode(), "application/x-www-form-urlencoded"
    else:
        body, type_ = orjson.dumps(fields), "application/json"
    proof = simulator.proof(Draft([mail.happening], body, now_s))
    return Post({"Content-Type": type_, **proof}, body)


def _flat(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _raw(mail: SimulatedMail) -> dict[str, Any]:
    return {
        "id": number_of(mail.id),
        "rcpt_to": mail.recipients[0],
        "mail_from": mail.sender,
        "message": encodebytes(mail.raw).decode(),
        "base64": True,
        "size": len(mail.raw),
    }


def _processed(mail: SimulatedMail, *, is_flat: bool) -> dict[str, Any]:
    attachments = [
        {
            "filename": file.name,
            "content_type": file.type,
            "size": len(file.content),
            "data": encodebytes(file.content).decode(),
        }
        for file in mail.files
    ]
    fields: dict[str, Any] = {
        "id": number_of(mail.id),
        "rcpt_to": mail.recipients[0],
        "mail_from": mail.sender,
        "token": mail.id[:12],
        "subject": mail.header("Subject"),
        "message_id": mail.header("Message-ID").strip("<>"),
        "timestamp": float(mail.received_s),
        "size": len(mail.raw),
        "spam_status": "NotSpam",
        "bounce": False,
        "received_with_ssl": True,
        "to": mail.header("To"),
        "cc": mail.header("Cc") or None,
        "from": mail.header("From"),
        "date": mail.header("Date"),
        "reply_to": mail.header("Reply-To") or None,
        "html_body": mail.html,
        "plain_body": mail.text,
        "attachment_quantity": len(attachments),
    }
    if not is_flat:
        return {**fields, "attachments": attachments}
    for number, one in enumerate(attachments):
        fields |= {f"attachments[{number}][{name}]": value for name, value in one.items()}
    return fields


HOOK = SimulatedHook(modes=("raw", "processed", "raw-form", "processed-form"), write=write)
