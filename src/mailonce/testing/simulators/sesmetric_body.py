"""SESMetric's older form: an envelope, and a signature over the body alone."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Draft, Happening, Simulator, Words
from mailonce.testing.simulators.sesmetric import Sesmetric


class SesmetricBody(Simulator):
    """Its signature has no time, so each attempt is the same."""

    name = "sesmetric-body"
    retry_waits_s = Sesmetric.retry_waits_s
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("delivery", {"smtpResponse": "250 ok"}),
        EventType.BOUNCED: ("bounce", {"bounceType": "Permanent", "smtpResponse": "550 5.1.1"}),
        EventType.COMPLAINED: ("complaint", {}),
        EventType.OPENED: ("open", {}),
        EventType.CLICKED: ("click", {"link": "https://example.com/welcome"}),
    }

    @property
    def provider(self) -> str:
        """The newer form's."""
        return Sesmetric.name

    def settings(self) -> dict[str, Any]:
        """Give the secret, and allow this form."""
        return {**super().settings(), "options": {"form": "body"}}

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        detail = {
            "sm_mail_id": f"sm-{one.message_id}",
            "messageId": one.message_id,
            "source": "shop@example.com",
            "recipients": [one.recipient],
            "eventTimestamp": iso(one.occurred_s),
            **more,
        }
        return {"event_type": word, "user_id": 1, "payload": detail}

    def proof(self, draft: Draft) -> dict[str, str]:
        return {"X-SM-Signature": "sha256=" + hmac_hex(self.secret, draft.body)}


SIMULATOR = SesmetricBody
