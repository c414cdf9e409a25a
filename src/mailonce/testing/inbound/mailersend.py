"""MailerSend posts a mail for all its recipients, signed by the inbound route's own secret."""

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode
    person, address = mail.people("From")[0]
    body = {
        "type": "inbound.message",
        "inbound_id": "route1",
        "url": simulator.to,
        "created_at": iso(mail.received_s),
        "data": {
            "object": "message",
            "id": mail.id,
            "recipients": {
                "rcptTo": [{"email": recipient} for recipient in mail.recipients],
                "to": {"raw": mail.header("To")},
            },
            "from": {"email": address, "name": person, "raw": mail.header("From")},
            "sender": {"email": mail.sender},
            "subject": mail.header("Subject"),
            "date": mail.header("Date"),
            "raw": mail.raw.decode("utf-8", "replace"),
            "spf_check": {"code": "+", "value": None},
            "dkim_check": False,
        },
    }
    written = orjson.dumps(body).replace(b"/", rb"\/")
    return [signed_post(simulator, mail, written, now_s)]


HOOK = SimulatedHook(modes=("raw",), write=write)
