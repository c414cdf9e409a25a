"""MailWebhook tells of mail that came in, and signs time and body with HMAC."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_base64, iso
from mailonce.testing.simulator import Happening, Post, Simulator, is_final

ROUTE = "r1"
AGAIN = frozenset({408, 409, 425, 429})

WORDS: Mapping[EventType, Any] = {EventType.INBOUND: "mailwebhook.generic"}


class MailWebhook(Simulator):
    """Posts what its generic mapper makes of one mail."""

    name = "mailwebhook"
    signs_time = True
    resigns = True
    retry_waits_s = (0, 30, 120, 600, 1800)
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the endpoint's secret."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell of one mail, under the key that all its attempts have."""
        (happening,) = happenings
        mail = {
            "message_id": happening.message_id,
            "subject": "Invoice",
            "from": [{"email": "billing@example.com", "name": "Billing"}],
            "to": [{"email": happening.recipient, "name": ""}],
        }
        body = orjson.dumps(
            {
                "schema": {"name": self.words[happening.type], "version": "1"},
                "event": {"id": happening.id, "route_id": ROUTE},
                "message": mail,
                "body": {"text": "Please pay", "attachments": []},
                "meta": {"source": "hosted", "received_at": iso(happening.occurred_s)},
            }
        )
        signature = hmac_base64(self.keys.text().encode(), f"{now_s}.".encode() + body)
        headers = {
            "Content-Type": "application/json",
            "X-MailWebhook-Signature": f"t={now_s}, kid=kid_1, v1={signature}",
            "X-Idempotency-Key": sha256(f"{happening.message_id}|{ROUTE}".encode()).hexdigest(),
        }
        return Post(headers, body)

    def stops(self, code: int) -> bool:
        """Any 4xx is the end, but for four."""
        return is_final(code, again=AGAIN)


SIMULATOR = MailWebhook
