"""SparkPost relays an array of mails, one for each recipient, as text or in Base64."""

from base64 import b64encode

import orjson

from mailonce.testing.mail import SimulatedHook, SimulatedMail, signed_post
from mailonce.testing.simulator import Post, Simulator


def write(simulator: Simulator, mail: SimulatedMail, mode: str, now_s: int) -> list[Post]:
    is_base64 = mode == "base64"
    text = b64encode(mail.raw).decode() if is_base64 else mail.raw.decode("utf-8", "replace")
    elements = [
        {
            "msys": {
                "relay_message": {
                    "content": {
                        "email_rfc822": text,
                        "email_rfc822_is_base64": is_base64,
                        "subject": mail.header("Subject"),
                    },
                    "customer_id": "1",
                    "friendly_from": mail.people("From")[0][1],
                    "msg_from": mail.sender,
                    "rcpt_to": recipient,
                    "protocol": "smtp",
                    "webhook_id": "w1",
                }
            }
        }
        for recipient in mail.recipients
    ]
    return [signed_post(simulator, mail, orjson.dumps(elements), now_s)]


HOOK = SimulatedHook(modes=("base64", "text"), write=write)
