"""MailWebhook tells of mail that came in, and signs time and body with HMAC."""

from hashlib import sha256
from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_base64, iso
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, final_codes

ROUTE = "r1"


class MailWebhook(Simulator):
    """Posts what its generic mapper makes of one mail."""

    name = "mailwebhook"
    signs_time = True
    resigns = True
    retry_waits_s = (0, 30, 120, 600, 1800)
    final = final_codes(again=(408, 409, 425, 429))
    words: ClassVar[Words] = {EventType.INBOUND: "mailwebhook.generic"}

    def event(self, one: Happening) -> dict[str, Any]:
        mail = {
            "message_id": one.message_id,
            "subject": "Invoice",
            "from": [{"email": "billing@example.com", "name": "Billing"}],
            "to": [{"email": one.recipient, "name": ""}],
        }
        return {
            "schema": {"name": self.words[one.type], "version": "1"},
            "event": {"id": one.id, "route_id": ROUTE},
            "message": mail,
            "body": {"text": "Please pay", "attachments": []},
            "meta": {"source": "hosted", "received_at": iso(one.occurred_s)},
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signature = hmac_base64(self.secret.encode(), f"{draft.now_s}.".encode() + draft.body)
        # All attempts have the same key.
        key = f"{draft.happenings[0].message_id}|{ROUTE}"
        return {
            "X-MailWebhook-Signature": f"t={draft.now_s}, kid=kid_1, v1={signature}",
            "X-Idempotency-Key": sha256(key.encode()).hexdigest(),
        }


SIMULATOR = MailWebhook
