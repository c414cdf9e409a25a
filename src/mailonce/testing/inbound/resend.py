"""Resend posts that a mail is there; its API says where the mail itself lies."""

import orjson

from mailonce.core.arrivals.mail_fetch import FetchAnswer
from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Post, Simulator

API = "https://api.resend.com/emails/receiving/"
CDN = "https://inbound-cdn.resend.com/"


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    attachments = [
        {
            "id": f"{mail.id}-{number}",
            "filename": file.name,
            "content_type": file.type,
            "content_disposition": "inline" if file.is_inline else "attachment",
            "content_id": file.content_id,
        }
        for number, file in enumerate(mail.files)
    ]
    data = {
        "created_at": iso(mail.received_s),
        "from": mail.header("From"),
        "to": [mail.header("To")],
        "cc": [mail.header("Cc")] if mail.header("Cc") else [],
        "bcc": [],
        "received_for": list(mail.recipients),
        "message_id": mail.header("Message-ID"),
        "subject": mail.header("Subject"),
        "attachments": attachments,
    }
    email = {
        "object": "email",
        "id": mail.id,
        **data,
        "reply_to": [mail.header("Reply-To")] if mail.header("Reply-To") else [],
        "text": mail.text,
        "html": mail.html,
        "headers": {name.lower(): value for name, value in mail.headers},
    }
    if mode == "raw":
        url = f"{CDN}{mail.id}/raw?Expires={now_s + 3600}&Signature=s"
        email["raw"] = {"download_url": url, "expires_at": iso(now_s + 3600)}
        simulator.answers[url] = FetchAnswer(status=200, body=mail.raw)
    answer = FetchAnswer(status=200, body=orjson.dumps(email))
    simulator.answers[f"{API}{mail.id}?html_format=cid"] = answer
    event = {
        "type": "email.received",
        "created_at": iso(mail.received_s),
        "data": {"email_id": mail.id, **data},
    }
    return [signed_post(simulator, mail, orjson.dumps(event), now_s)]


HOOK = SimulatedHook(
    modes=("raw", "parsed"),
    write=write,
    settings=lambda simulator: {"api_key": f"re_{simulator.keys.text('api')}"},
)
