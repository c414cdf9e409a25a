"""Mailhook posts a mail in a form that only its customers know; this one is made up."""

from base64 import b64encode

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Post, Simulator

POINTERS = {
    "recipients": "/email/envelope/to",
    "sender": "/email/envelope/from",
    "raw_base64": "/email/raw",
}


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode
    body = {
        "id": f"ie_{mail.id}",
        "type": "email.received",
        "received_at": iso(mail.received_s),
        "email": {
            "message_id": mail.header("Message-ID"),
            "to": list(mail.recipients),
            "envelope": {"from": mail.sender, "to": list(mail.recipients)},
            "raw": b64encode(mail.raw).decode(),
        },
    }
    return [signed_post(simulator, mail, orjson.dumps(body), now_s)]


HOOK = SimulatedHook(
    modes=("raw",), write=write, settings=lambda _: {"options": {"mail": POINTERS}}
)
