"""SESMetric's older form: an envelope, and a signature over the body alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Happening, Post, Simulator
from mailonce.testing.simulators.sesmetric import Sesmetric

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("delivery", {"smtpResponse": "250 ok"}),
    EventType.BOUNCED: ("bounce", {"bounceType": "Permanent", "smtpResponse": "550 5.1.1"}),
    EventType.COMPLAINED: ("complaint", {}),
    EventType.OPENED: ("open", {}),
    EventType.CLICKED: ("click", {"link": "https://example.com/welcome"}),
}


class SesmetricBody(Simulator):
    """Its signature has no time, so each attempt is the same."""

    name = "sesmetric-body"
    retry_waits_s = Sesmetric.retry_waits_s
    words = WORDS

    @property
    def provider(self) -> str:
        """The newer form's."""
        return Sesmetric.name

    def settings(self) -> dict[str, Any]:
        """Give the secret, and allow this form."""
        return {
            "provider": self.provider,
            "secret": self.keys.text(),
            "options": {"form": "body"},
        }

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        del now_s
        (happening,) = happenings
        word, more = self.words[happening.type]
        detail = {
            "sm_mail_id": f"sm-{happening.message_id}",
            "messageId": happening.message_id,
            "source": "shop@example.com",
            "recipients": [happening.recipient],
            "eventTimestamp": iso(happening.occurred_s),
            **more,
        }
        body = orjson.dumps({"event_type": word, "user_id": 1, "payload": detail})
        headers = {
            "Content-Type": "application/json",
            "X-SM-Signature": "sha256=" + hmac_hex(self.keys.text(), body),
        }
        return Post(headers, body)


SIMULATOR = SesmetricBody
