"""Mandrill posts an array of mails, one for each recipient, within a signed form."""

from urllib.parse import urlencode

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail
from mailonce.testing.sign import hmac_base64
from mailonce.testing.simulator import Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    del mode, now_s
    events = [
        {
            "event": "inbound",
            "ts": mail.received_s,
            "msg": {
                "raw_msg": mail.raw.decode("utf-8", "replace"),
                "email": recipient,
                "from_email": mail.people("From")[0][1],
                "subject": mail.header("Subject"),
                "spam_report": {"score": 0.1, "matched_rules": []},
                "spf": {"result": "pass", "detail": "sender SPF authorized"},
                "dkim": {"signed": True, "valid": True},
            },
        }
        for recipient in mail.recipients
    ]
    text = orjson.dumps(events).decode()
    signed = f"{simulator.to}mandrill_events{text}".encode()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Mandrill-Signature": hmac_base64(simulator.secret.encode(), signed, "sha1"),
    }
    return [Post(headers, urlencode({"mandrill_events": text}, safe="@").encode())]


HOOK = SimulatedHook(modes=("raw",), write=write)
