"""MailWebhook posts what its generic mapper makes of a mail: sorted, and in lower case."""

from hashlib import sha256

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode
    headers: dict[str, str] = {}
    for name, value in mail.headers:
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    body = {
        "schema": {"name": "mailwebhook.generic", "version": "1"},
        "event": {"id": mail.id, "project_id": "p1", "route_id": "r1"},
        "message": {
            "message_id": mail.header("Message-ID"),
            "message_id_type": "original",
            "subject": mail.header("Subject"),
            "date": mail.header("Date"),
            "from": _people(mail, "From"),
            "to": _people(mail, "To"),
            "cc": _people(mail, "Cc"),
            "reply_to": _people(mail, "Reply-To"),
            "headers": headers,
        },
        "body": {
            "text": mail.text,
            "html": mail.html,
            "attachments": [
                {
                    "id": f"{mail.id}-{number}",
                    "filename": file.name,
                    "content_type": file.type,
                    "size": len(file.content),
                    "is_inline": file.is_inline,
                    "content_id": file.content_id,
                    "sha256": sha256(file.content).hexdigest(),
                }
                for number, file in enumerate(mail.files)
            ],
        },
        "meta": {"source": "hosted", "received_at": iso(mail.received_s)},
        "envelope": {"mail_from": mail.sender, "rcpt_to": list(mail.recipients)},
    }
    return [signed_post(simulator, mail, orjson.dumps(body), now_s)]


def _people(mail: SimulatedMail, name: str) -> list[dict[str, str]]:
    people = [{"email": address.lower(), "name": person} for person, address in mail.people(name)]
    return sorted(people, key=lambda one: one["email"])


HOOK = SimulatedHook(modes=("generic",), write=write)
